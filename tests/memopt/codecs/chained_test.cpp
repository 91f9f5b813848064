#include "memopt/codecs/chained.h"

#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "memopt/codecs/host_offload.h"
#include "memopt/codecs/reduced.h"
#include "memopt/codecs/sparse.h"
#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

const EncodeKey kKey;

int64_t bytes_of(const Encoded& encoded) {
  int64_t bytes = 0;
  for (const at::Tensor& part : encoded.parts) bytes += static_cast<int64_t>(part.nbytes());
  return bytes;
}

TEST(ChainedCodec, encodes_one_part_and_leaves_the_others) {
  const std::shared_ptr<const Codec> sparse = make_sparse_codec(0.6);
  const auto chained = make_chained_codec(sparse, make_reduced_codec(8), 2);
  const at::Tensor x = test::suitable_for("ssdc", test::normals({64, 64}));
  const Encoded plain = sparse->encode(x, kKey).value();
  const Encoded encoded = chained->encode(x, kKey).value();
  EXPECT_TRUE(test::same_bits(encoded.parts[0], plain.parts[0]));
  EXPECT_TRUE(test::same_bits(encoded.parts[1], plain.parts[1]));
  EXPECT_LT(bytes_of(encoded), bytes_of(plain) / 2);
  const at::Tensor y = chained->decode(encoded);
  EXPECT_LE((y - x).abs().max().item<float>(), x.max().item<float>() / 16);
}

TEST(ChainedCodec, sends_every_part_to_the_host) {
  const std::shared_ptr<const HostOffload> host = make_host_offload(c10::Device("cpu"), 1 << 20);
  const std::shared_ptr<const Codec> sparse = make_sparse_codec(0.6);
  const auto chained = make_chained_codec(sparse, host);
  EXPECT_EQ(chained->name(), "ssdc+copy");
  EXPECT_TRUE(chained->lossless());
  const at::Tensor x = test::suitable_for("ssdc", test::normals({64, 64}));
  {
    const Encoded encoded = chained->encode(x, kKey).value();
    chained->finish_encoding();
    chained->prefetch(encoded);
    EXPECT_EQ(host->usage().held_bytes, bytes_of(sparse->encode(x, kKey).value()));
    EXPECT_TRUE(test::same_bits(chained->decode(encoded), x));
  }
  EXPECT_EQ(host->usage().held_bytes, 0);
}

TEST(ChainedCodec, is_lossless_where_both_are) {
  EXPECT_FALSE(make_chained_codec(make_sparse_codec(0.6), make_reduced_codec(8), 2)->lossless());
}

TEST(ChainedCodec, refuses_what_either_refuses) {
  const at::Tensor dense = test::normals({64, 64});
  const at::Tensor sparse = test::suitable_for("ssdc", dense);
  EXPECT_FALSE(
      make_chained_codec(make_sparse_codec(0.6), make_reduced_codec(8), 2)->encode(dense, kKey));
  const std::shared_ptr<const Codec> no_room = make_host_offload(c10::Device("cpu"), 100);
  EXPECT_FALSE(make_chained_codec(make_sparse_codec(0.6), no_room)->encode(sparse, kKey));
}

/// A codec whose verdict is not there yet, as on a GPU.
class Undecided final : public Codec {
 public:
  explicit Undecided(Verdict::State end) : end_(end) {}
  std::string_view name() const override { return "undecided"; }
  bool lossless() const override { return true; }
  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& /*key*/) const override {
    struct Fixed final : Verdict {
      State end = State::kPending;
      State poll() override { return State::kPending; }
      State wait() override { return end; }
    };
    Encoded encoded;
    encoded.parts = {x.clone()};
    encoded.sizes = x.sizes().vec();
    encoded.strides = x.strides().vec();
    encoded.dtype = x.scalar_type();
    const auto verdict = std::make_shared<Fixed>();
    verdict->end = end_;
    encoded.verdict = verdict;
    return encoded;
  }
  at::Tensor decode(const Encoded& encoded) const override { return encoded.parts.at(0).clone(); }

 private:
  Verdict::State end_;
};

TEST(ChainedCodec, holds_where_both_hold) {
  using State = Verdict::State;
  const at::Tensor x = test::normals({64});
  const auto joint = [&](State outer, State inner) {
    const auto chained =
        make_chained_codec(std::make_shared<Undecided>(outer), std::make_shared<Undecided>(inner));
    const Encoded encoded = chained->encode(x, kKey).value();
    EXPECT_EQ(encoded.verdict->poll(), State::kPending);
    const State end = encoded.verdict->wait();
    if (end == State::kLost) {
      EXPECT_THROW(static_cast<void>(chained->decode(encoded)), c10::Error);
    } else {
      EXPECT_TRUE(test::same_bits(chained->decode(encoded), x));
    }
    return end;
  };
  EXPECT_EQ(joint(State::kHolds, State::kHolds), State::kHolds);
  EXPECT_EQ(joint(State::kLost, State::kHolds), State::kLost);
  EXPECT_EQ(joint(State::kHolds, State::kLost), State::kLost);
}

}  // namespace
}  // namespace noisemark::memopt
