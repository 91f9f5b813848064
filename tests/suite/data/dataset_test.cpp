#include <gtest/gtest.h>

#include <string>

#include "reports/base/error.h"
#include "suite/data/dataset.h"

namespace noisemark::suite {
namespace {

Definition definition_of(const std::string& source) {
  Definition definition;
  definition.id = "lucid-cifar10";
  definition.data.name = source;
  return definition;
}

void expect_error(const Definition& definition, ExitCode code, const std::string& what) {
  try {
    static_cast<void>(open_dataset(definition, ""));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(std::string(error.what()), what);
  }
}

TEST(OpenDataset, cannot_run_here_without_a_folder_that_is_needed) {
  expect_error(definition_of("cifar10"), ExitCode::kCannotRunHere,
               "lucid-cifar10: --data: not given, and NOISEMARK_DATA is not set (the folder with "
               "cifar-10-batches-bin, which "
               "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz holds)");
  expect_error(
      definition_of("folder"), ExitCode::kCannotRunHere,
      "lucid-cifar10: --data: not given, and NOISEMARK_DATA is not set (a folder of PNG or "
      "JPEG files)");
}

TEST(OpenDataset, names_every_source_when_there_is_none_of_that_name) {
  expect_error(
      definition_of("cifar100"), ExitCode::kBadInput,
      "lucid-cifar10: data.name: \"cifar100\" (one of: gmm16, cifar10, folder, synthetic)");
}

TEST(OpenDataset, generated_data_need_no_folder) {
  Definition definition = definition_of("synthetic");
  definition.model.resolution = 20;
  EXPECT_EQ(open_dataset(definition, "")->resolution(), 20);
}

}  // namespace
}  // namespace noisemark::suite
