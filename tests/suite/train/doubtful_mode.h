#pragma once

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <string>

#include "memopt/modes/mode.h"

namespace noisemark::suite::test {

/// Keeps everything, and says of one step that its gradients are wrong, as a mode does whose values
/// a device has compared.
class DoubtfulMode final : public memopt::Mode {
 public:
  explicit DoubtfulMode(int64_t wrong_step) : wrong_step_(wrong_step) {}
  [[nodiscard]] std::string name() const override { return "none"; }
  [[nodiscard]] bool lossless() const override { return true; }
  void attach(const memopt::ModelView&) override {}
  void begin_step(int64_t) override {}
  void end_step() override { ended_ = true; }
  void check_step() override {
    TORCH_CHECK(ended_, "a step was checked before it had ended");
    ended_ = false;
    TORCH_CHECK(++checked_ != wrong_step_ + 1, "not what forward had");
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override { return nullptr; }

 private:
  const int64_t wrong_step_;
  int64_t checked_ = 0;
  bool ended_ = false;
};

}  // namespace noisemark::suite::test
