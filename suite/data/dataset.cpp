#include "suite/data/dataset.h"

#include <array>
#include <string>
#include <string_view>

#include "reports/base/error.h"
#include "suite/data/cifar10.h"
#include "suite/data/generated.h"
#include "suite/data/image_folder.h"

namespace noisemark::suite {
namespace {

struct Source {
  std::string_view name;   ///< data.name
  std::string_view needs;  ///< description of the folder for --data; empty: nothing is read
  std::shared_ptr<const Dataset> (*open)(const Definition& definition, const std::string& folder);
};

constexpr std::array kSources{
    Source{"gmm16", "", [](const Definition& d, const std::string&) { return open_gmm16(d); }},
    Source{"cifar10",
           "the folder with cifar-10-batches-bin, which "
           "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz holds",
           open_cifar10},
    Source{"folder", "a folder of PNG or JPEG files", open_image_folder},
    Source{"synthetic", "",
           [](const Definition& d, const std::string&) { return open_synthetic(d); }},
};

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const Definition& definition,
                                            const std::string& folder) {
  std::string names;
  for (const Source& source : kSources) {
    names += (names.empty() ? "one of: " : ", ") + std::string(source.name);
    if (source.name != definition.data.name) continue;
    if (!source.needs.empty() && folder.empty()) {
      throw Error(ExitCode::kCannotRunHere,
                  definition.id + ": --data: not given, and NOISEMARK_DATA is not set (" +
                      std::string(source.needs) + ")");
    }
    return source.open(definition, folder);
  }
  throw bad_input(definition.id, "data.name", "\"" + definition.data.name + "\"", names);
}

}  // namespace noisemark::suite
