// noisemark_npy_probe IN OUT [IN OUT]...: reads .npy or .npz with our reader and writes it with our
// writer, for NumPy to look at. An error goes to standard error; the exit code is that of the last.

#include <cstdio>
#include <string>

#include "reports/base/error.h"
#include "suite/io/numpy.h"

namespace {

using namespace noisemark;  // NOLINT(google-build-using-namespace): a program, not a header

void convert(const std::string& in, const std::string& out) {
  if (!in.ends_with(".npz")) return suite::write_npy(out, suite::read_npy(in));
  const suite::NpzFile file(in);
  suite::NamedTensors arrays;
  for (const std::string& name : file.names()) arrays.emplace_back(name, file.array(name));
  suite::write_npz(out, arrays);
}

}  // namespace

int main(int argc, char** argv) {
  ExitCode code = argc % 2 == 1 ? ExitCode::kPass : ExitCode::kBadInput;
  for (int i = 1; i + 1 < argc; i += 2) {
    try {
      convert(argv[i], argv[i + 1]);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      code = error.code();
    }
  }
  return static_cast<int>(code);
}
