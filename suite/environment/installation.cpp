#include "suite/environment/installation.h"

#include <dlfcn.h>
#include <unistd.h>

#include <ATen/Version.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "suite/environment/child.h"
#include "suite/environment/system.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

// The packages that the listed ones bring along and a program is compiled by or loads, by its names
// in Debian 12 and Ubuntu 24.04.
constexpr const char* kBrought[] = {
    "g++-12",          "g++-13",      "libboost-dev",   "libc6",   "libgomp1",   "libjpeg-turbo8",
    "libjpeg62-turbo", "libpng16-16", "libpng16-16t64", "libssl3", "libssl3t64", "libstdc++6"};

std::vector<std::string> relevant_packages() {
  std::vector<std::string> names = listed_packages();
  names.insert(names.end(), std::begin(kBrought), std::end(kBrought));
  return names;
}

constexpr std::string_view kVariablePrefixes[] = {
    "ATEN_",      "CUBLAS_", "CUDA_",      "CUDNN_",  "DNNL_",    "GLIBC_TUNABLES",
    "GOMP_",      "KMP_",    "LD_PRELOAD", "MALLOC_", "MKL_",     "NCCL_",
    "NOISEMARK_", "NVIDIA_", "OMP_",       "ONEDNN_", "PYTORCH_", "TORCH_"};

bool is_relevant(std::string_view variable) {
  return std::any_of(std::begin(kVariablePrefixes), std::end(kVariablePrefixes),
                     [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

const char* variable(const char* name) {
  return std::getenv(name);
}

std::string container_kind() {
  if (variable("APPTAINER_CONTAINER") != nullptr) return "apptainer";
  if (variable("SINGULARITY_CONTAINER") != nullptr) return "singularity";
  if (std::filesystem::exists("/run/.containerenv")) return "podman";
  if (std::filesystem::exists("/.dockerenv")) return "docker";
  if (variable("KUBERNETES_SERVICE_HOST") != nullptr) return "kubernetes";
  if (const char* kind = variable("container")) return kind;
  return "";
}

struct BuildIdSearch {
  const void* inside;  ///< an address in the wanted library
  std::string build_id;
};

bool contains(const dl_phdr_info& info, const void* address) {
  const auto wanted = reinterpret_cast<ElfW(Addr)>(address);
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    const ElfW(Addr) begin = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && wanted >= begin && wanted < begin + header.p_memsz) return true;
  }
  return false;
}

// The GNU build id among the notes of one segment, as hexadecimal digits.
std::string build_id_of(const unsigned char* notes, size_t size) {
  size_t at = 0;
  const auto aligned = [](size_t n) { return (n + 3) & ~size_t{3}; };
  while (at + sizeof(ElfW(Nhdr)) <= size) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof(note));
    const size_t name = at + sizeof(note);
    const size_t value = name + aligned(note.n_namesz);
    if (value + note.n_descsz > size) return "";
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string text;
      for (size_t i = 0; i < note.n_descsz; ++i) text += fmt::format("{:02x}", notes[value + i]);
      return text;
    }
    at = value + aligned(note.n_descsz);
  }
  return "";
}

int visit_library(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto& search = *static_cast<BuildIdSearch*>(data);
  if (!contains(*info, search.inside)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* notes =
        reinterpret_cast<const unsigned char*>(info->dlpi_addr + header.p_vaddr);  // ld maps it
    search.build_id = build_id_of(notes, header.p_memsz);
    if (!search.build_id.empty()) break;
  }
  return 1;
}

}  // namespace

Strings package_versions(std::string_view dpkg_status, const std::vector<std::string>& packages) {
  Strings versions;
  while (!dpkg_status.empty()) {
    const size_t end = dpkg_status.find("\n\n");
    const std::string_view paragraph = dpkg_status.substr(0, end);
    const auto name = field_of(paragraph, "Package", ':');
    if (name && std::find(packages.begin(), packages.end(), *name) != packages.end()) {
      const auto status = field_of(paragraph, "Status", ':');
      const auto version = field_of(paragraph, "Version", ':');
      if (version && status && status->ends_with(" installed")) versions[*name] = *version;
    }
    dpkg_status = end == std::string_view::npos ? std::string_view{} : dpkg_status.substr(end + 2);
  }
  return versions;
}

Strings installed_packages() {
  Strings result;
  const auto status = read_system_file("/var/lib/dpkg/status");
  if (!status) return result;
  for (const auto& [name, version] : package_versions(*status, relevant_packages())) {
    result[fmt::format("package {}", name)] = version;
  }
  return result;
}

Strings describe_container() {
  Strings result;
  const std::string kind = container_kind();
  const char* image = variable("NOISEMARK_IMAGE");  // set by our own image
  if (kind.empty() && image == nullptr) return result;
  result["kind"] = kind.empty() ? "unknown" : kind;
  if (image == nullptr) image = variable("APPTAINER_CONTAINER");
  if (image == nullptr) image = variable("SINGULARITY_CONTAINER");
  if (image != nullptr) result["image"] = image;
  if (const char* digest = variable("NOISEMARK_IMAGE_DIGEST")) result["digest"] = digest;
  return result;
}

Strings relevant_variables() {
  Strings result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos || !is_relevant(name)) continue;
    if (name == Cause::kVariable) continue;  // a run of a series is no other run for it
    result[fmt::format("${}", text.substr(0, equals))] = text.substr(equals + 1);
  }
  return result;
}

Strings libtorch_identity() {
  Strings result;
  const auto* inside = reinterpret_cast<const void*>(&at::show_config);
  Dl_info info{};
  if (dladdr(inside, &info) == 0 || info.dli_fname == nullptr) return result;
  // A program that is not position independent sees its own stub of a library's function.
  BuildIdSearch search{info.dli_fbase, ""};
  dl_iterate_phdr(&visit_library, &search);
  if (!search.build_id.empty()) result["libtorch_build_id"] = search.build_id;
  const auto folder = std::filesystem::path(info.dli_fname).parent_path().parent_path();
  if (const auto version = read_system_file((folder / "version.py").string())) {
    if (auto commit = field_of(*version, "git_version", '=')) {
      std::erase(*commit, '\'');
      result["libtorch_commit"] = *commit;
    }
  } else if (const auto hash = read_system_file((folder / "build-hash").string())) {
    result["libtorch_commit"] = *hash;
  }
  return result;
}

}  // namespace noisemark::suite
