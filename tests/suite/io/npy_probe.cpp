// noisemark_npy_probe IN OUT: reads .npy or .npz with our reader and writes it with our writer, for
// NumPy to look at. An error goes to standard error with its exit code, as in the program.

#include <cstdio>
#include <string>

#include "reports/error.h"
#include "suite/io/npy.h"
#include "suite/io/npz.h"

int main(int argc, char** argv) {
  using namespace noisemark;  // NOLINT(google-build-using-namespace): a program, not a header
  if (argc != 3) return static_cast<int>(ExitCode::kBadInput);
  const std::string in = argv[1];
  try {
    if (in.ends_with(".npz")) {
      const suite::NpzFile file(in);
      suite::NamedTensors arrays;
      for (const std::string& name : file.names()) arrays.emplace_back(name, file.array(name));
      suite::write_npz(argv[2], arrays);
    } else {
      suite::write_npy(argv[2], suite::read_npy(in));
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
