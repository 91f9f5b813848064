#include <ATen/ops/matmul.h>
#include <ATen/ops/silu.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/gpu.h"
#include "tests/memopt/nets.h"

// Values that are held narrow on a GPU that is far behind the host.
namespace noisemark::memopt {
namespace {

using Narrowed = std::function<at::Tensor(const at::Tensor& h)>;

/// Autograd knows that it is a cast.
at::Tensor cast(const at::Tensor& h) {
  return h.to(at::kBFloat16).to(at::kFloat);
}
/// It has as few bits, and only its values show it.
at::Tensor product_of_cast(const at::Tensor& h) {
  return cast(h) * 2;
}

/// SiLU between two layers, which reads what `narrowed` makes of the first one's result.
class Layers : public test::TwoLayers {
 public:
  Layers(const char* mode, Narrowed narrowed)
      : TwoLayers(mode, 43, kGpu), narrowed_(std::move(narrowed)) {}

  at::Tensor forward() {
    return forward_with([this](const at::Tensor& h) { return at::silu(narrowed_(h)); });
  }
  std::vector<at::Tensor> step() { return backward_of(forward()); }
  std::vector<at::Tensor> backward(const at::Tensor& loss) { return backward_of(loss); }

 private:
  Narrowed narrowed_;
};

/// Work that a GPU needs far longer for than the host needs to issue it and a step.
void occupy_gpu() {
  at::Tensor a = at::randn({8192, 8192}, at::device(kGpu));
  for (int i = 0; i < 20; ++i) a = at::matmul(a, a).mul(1e-5);
}

bool is_busy() {
  c10::Event done(at::kCUDA);
  done.record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(kGpu));
  return !done.query();
}

struct Behind {
  bool host_went_on = false;  ///< the GPU was still busy when the step had been issued
  size_t held = 0;            ///< tensors as they were saved, when forward had ended
};

/// The gradients of a step that is issued while the GPU is busy with something else; they must be
/// those of mode "none".
Behind step_behind(const Narrowed& narrowed) {
  Layers none("none", narrowed);
  Layers echo("echo", narrowed);
  for (int i = 0; i < 5; ++i) {
    static_cast<void>(none.step());
    static_cast<void>(echo.step());
  }
  EXPECT_GT(echo.planned().report().plan.encoded_from_bytes, 0)
      << echo.planned().report().missing_reason;
  occupy_gpu();
  Behind behind;
  const at::Tensor loss = echo.forward();
  behind.held = echo.planned().held().size();
  const std::vector<at::Tensor> got = echo.backward(loss);
  behind.host_went_on = is_busy();
  const std::vector<at::Tensor> expected = none.step();
  for (size_t w = 0; w < got.size(); ++w) EXPECT_TRUE(got[w].cpu().equal(expected[w].cpu())) << w;
  EXPECT_EQ(echo.planned().report().counters.codec_fallbacks, 0);
  return behind;
}

TEST(GpuAnswers, need_not_come_of_a_cast_which_is_held_narrow_at_once) {
  const Behind known = step_behind(cast);
  const Behind asked = step_behind(product_of_cast);
  EXPECT_EQ(asked.held, known.held + 1) << "both forms of what nobody knows yet";
}

TEST(GpuAnswers, are_not_waited_for) {
  EXPECT_TRUE(step_behind(cast).host_went_on);
  EXPECT_TRUE(step_behind(product_of_cast).host_went_on);
}

}  // namespace
}  // namespace noisemark::memopt
