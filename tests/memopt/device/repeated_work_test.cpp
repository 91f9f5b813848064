#include "memopt/device/repeated_work.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "memopt/codecs/codecs.h"
#include "memopt/codecs/host_offload.h"
#include "memopt/modes/mode.h"

namespace noisemark::memopt {
namespace {

const EncodeKey kKey{1, 2, 3};

std::string refusal(const Codec& codec, const at::Tensor& x, const EncodeKey& key = kKey) {
  const RepeatedWorkScope recording;
  try {
    (void)codec.encode(x, key);
  } catch (const NotRepeatable& error) {
    return error.what();
  }
  return "";
}

TEST(RepeatedWork, needs_the_host_only_while_it_is_recorded) {
  EXPECT_NO_THROW(require_host("before"));
  {
    const RepeatedWorkScope recording;
    EXPECT_THROW(require_host("meanwhile"), NotRepeatable);
    EXPECT_ANY_THROW(const RepeatedWorkScope second);
  }
  EXPECT_NO_THROW(require_host("after"));
}

TEST(RepeatedWork, that_needed_the_host_is_remembered_though_somebody_caught_it) {
  const RepeatedWorkScope recording;
  EXPECT_NO_THROW(recording.check());
  EXPECT_THROW(require_host("the first"), NotRepeatable);
  EXPECT_THROW(require_host("the second"), NotRepeatable);
  try {
    recording.check();
    FAIL();
  } catch (const NotRepeatable& error) {
    EXPECT_STREQ(error.what(), "the first");
  }
}

TEST(RepeatedWork, takes_codecs_that_fit_whatever_the_values_and_refuses_the_others) {
  const at::Tensor x = at::randn({64, 64});
  EXPECT_EQ(refusal(*make_reduced_codec(8), x), "");
  EXPECT_EQ(refusal(*make_reduced_codec(16), x), "");
  EXPECT_EQ(refusal(*make_sign_codec(), x), "");
  EXPECT_EQ(refusal(*make_mask_codec(), x.gt(0)), "");
  // Values may not be two, or not fit: the host would have to look.
  EXPECT_NE(refusal(*make_mask_codec(), x), "");
  EXPECT_NE(refusal(*make_narrow_codec(), x), "");
  EXPECT_NE(refusal(*make_sparse_codec(0.5), x), "");
  // A repetition would round every step alike.
  EXPECT_NE(refusal(*make_grouped_codec(4), x), "");
  EXPECT_NE(refusal(*make_host_offload(c10::kCPU, 1 << 20), x), "");
}

TEST(RepeatedWork, takes_narrow_copies_of_what_is_known_to_have_been_narrow) {
  EncodeKey cast = kKey;
  cast.cast_from = at::kBFloat16;
  const at::Tensor x = at::randn({64, 64}).to(at::kBFloat16).to(at::kFloat);
  EXPECT_NE(refusal(*make_narrow_codec(), x), "");
  EXPECT_EQ(refusal(*make_narrow_codec(), x, cast), "");
  EXPECT_NE(refusal(*make_narrow_codec(at::kHalf), x, cast), "") << "it was another type";
  EXPECT_NE(refusal(*make_mask_codec(), x, cast), "") << "two values are no matter of the type";
}

TEST(RepeatedWork, is_refused_by_the_names_of_modes_where_that_is_enough) {
  for (const char* mode : {"none", "mirror", "mirror:sqrt", "mirror+echo", "echo", "echo+attn",
                           "dpr8", "echo+dpr10"}) {
    EXPECT_EQ(why_host_is_needed(mode), "") << mode;
  }
  for (const char* mode : {"gist", "q4", "echo+q2", "offload", "echo+offload:all", "gist+dpr8",
                           "budget:2GiB", "offload,host=1GiB"}) {
    EXPECT_NE(why_host_is_needed(mode), "") << mode;
  }
  EXPECT_THROW((void)why_host_is_needed("ecko"), std::invalid_argument);
  EXPECT_THROW((void)why_host_is_needed("budget:much"), std::invalid_argument);
}

TEST(Mode, is_steady_from_the_start_where_it_watches_nothing) {
  EXPECT_TRUE(make_mode("none")->steady());
  EXPECT_FALSE(make_mode("echo")->steady());
}

}  // namespace
}  // namespace noisemark::memopt
