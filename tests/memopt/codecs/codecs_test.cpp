#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/codecs/codec.h"
#include "memopt/codecs/codecs.h"
#include "memopt/codecs/host_offload.h"
#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

using test::same_bits;

const EncodeKey kKey{42, 3, 7};

/// The duties of every codec, whatever it does with the values: each test asks all of them.
class Subject {
 public:
  explicit Subject(test::NamedCodec named) : named_(std::move(named)) {}
  const std::string& name() const { return named_.name; }
  const Codec& codec() const { return *named_.codec; }
  at::Tensor input(at::IntArrayRef sizes) const {
    return test::suitable_for(named_.name, test::normals(sizes));
  }

 private:
  test::NamedCodec named_;
};

void ask_all(const std::function<void(const Subject& subject)>& question) {
  for (const test::NamedCodec& named : test::all_codecs()) {
    SCOPED_TRACE(named.name);
    question(Subject(named));
  }
}

TEST(CodecContract, is_known_by_its_name) {
  ask_all([](const Subject& s) { EXPECT_EQ(s.codec().name(), s.name()); });
}

TEST(CodecContract, gives_back_sizes_strides_and_type_of_every_dense_layout) {
  ask_all([](const Subject& s) {
    const std::vector<int64_t> orders[] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {3, 1, 0, 2}, {1, 0, 3, 2}};
    for (const auto& order : orders) {
      const at::Tensor x = test::in_memory_order(s.input({3, 7, 19, 13}), order);
      const auto encoded = s.codec().encode(x, kKey);
      ASSERT_TRUE(encoded) << x.strides();
      const at::Tensor y = s.codec().decode(*encoded);
      EXPECT_EQ(y.sizes(), x.sizes());
      EXPECT_EQ(y.strides(), x.strides());
      EXPECT_EQ(y.scalar_type(), x.scalar_type());
      EXPECT_TRUE(!s.codec().lossless() || same_bits(y, x)) << x.strides();
    }
  });
}

TEST(CodecContract, sees_memory_only) {
  ask_all([](const Subject& s) {
    const at::Tensor x = test::in_memory_order(s.input({3, 7, 19, 13}), {0, 2, 3, 1});
    const Encoded encoded = s.codec().encode(x, kKey).value();
    const Encoded of_memory = s.codec().encode(test::flat(x), kKey).value();
    EXPECT_TRUE(test::same_parts(encoded, of_memory));
    EXPECT_TRUE(same_bits(test::flat(s.codec().decode(encoded)), s.codec().decode(of_memory)));
  });
}

/// Codes fill whole blocks, of which a few elements need but a part.
TEST(CodecContract, takes_no_tensor_that_it_makes_no_smaller) {
  ask_all([](const Subject& s) {
    for (const int64_t width : {1, 2, 3, 5, 8, 13, 21, 34, 55, 89}) {
      const at::Tensor x = s.input({1, 2, 3, width});
      const auto encoded = s.codec().encode(x, kKey);
      if (!encoded) continue;
      size_t bytes = 0;
      for (const at::Tensor& part : encoded->parts) bytes += part.nbytes();
      EXPECT_LT(bytes, x.nbytes()) << width;
    }
  });
}

TEST(CodecContract, takes_a_dense_view_inside_other_memory) {
  ask_all([](const Subject& s) {
    const at::Tensor whole = s.input({9000});
    const at::Tensor x = whole.narrow(0, 1000, 6001);
    EXPECT_TRUE(test::same_parts(s.codec().encode(x, kKey).value(),
                                 s.codec().encode(x.clone(), kKey).value()));
  });
}

TEST(CodecContract, gains_bytes_or_refuses) {
  ask_all([](const Subject& s) {
    for (const int64_t count : {1, 2, 7, 31, 32, 33, 60, 100, 256, 500, 1000, 3000}) {
      const at::Tensor x = s.input({count});
      const auto encoded = s.codec().encode(x, kKey);
      if (!encoded) {
        EXPECT_LT(count, 1000) << "that many are enough for every codec";
        continue;
      }
      int64_t bytes = 0;
      for (const at::Tensor& part : encoded->parts) bytes += part.nbytes();
      EXPECT_LT(bytes, x.nbytes()) << count;
      EXPECT_EQ(s.codec().decode(*encoded).numel(), count);
    }
    EXPECT_FALSE(s.codec().encode(s.input({1}), kKey));
  });
}

TEST(CodecContract, refuses_what_it_cannot_take) {
  ask_all([](const Subject& s) {
    const at::Tensor x = s.input({64, 64});
    ASSERT_TRUE(s.codec().encode(x, kKey));
    EXPECT_FALSE(s.codec().encode(at::empty({0}), kKey)) << "empty";
    EXPECT_FALSE(s.codec().encode(s.input({64, 128}).slice(1, 0, 128, 2), kKey)) << "gaps";
    EXPECT_FALSE(s.codec().encode(s.input({64, 1}).expand({64, 64}), kKey)) << "overlaps";
    EXPECT_FALSE(s.codec().encode(x.to(at::kDouble), kKey)) << "float64";
    EXPECT_FALSE(s.codec().encode(x.to(at::kLong), kKey)) << "int64";
    EXPECT_FALSE(s.codec().encode(x.to(at::kComplexFloat), kKey)) << "complex";
    EXPECT_FALSE(s.codec().encode(x._neg_view(), kKey)) << "lazily negated";
    EXPECT_FALSE(s.codec().encode(x.to_sparse(), kKey)) << "sparse";
    EXPECT_FALSE(s.codec().encode(x.to("meta"), kKey)) << "no memory";
  });
}

TEST(CodecContract, gives_the_same_bits_with_one_thread_and_with_two) {
  ask_all([](const Subject& s) {
    const at::Tensor x = s.input({3, 100'003});
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const Encoded alone = s.codec().encode(x, kKey).value();
    const at::Tensor decoded_alone = s.codec().decode(alone);
    at::set_num_threads(2);
    const Encoded together = s.codec().encode(x, kKey).value();
    const at::Tensor decoded_together = s.codec().decode(together);
    at::set_num_threads(threads);
    EXPECT_TRUE(test::same_parts(alone, together));
    EXPECT_TRUE(same_bits(decoded_alone, decoded_together));
  });
}

TEST(CodecContract, makes_its_memory_known_by_owner) {
  ask_all([](const Subject& s) {
    const auto owner_of = [](const at::Tensor& tensor) {
      const auto block = cpu_allocation_source().find(*tensor.storage().unsafeGetStorageImpl());
      return block.value().born_as;
    };
    const Encoded encoded = s.codec().encode(s.input({64, 64}), kKey).value();
    for (const at::Tensor& part : encoded.parts) EXPECT_EQ(owner_of(part), Owner::kEncoded);
    EXPECT_EQ(owner_of(s.codec().decode(encoded)), Owner::kRematerialized);
  });
}

TEST(CodecContract, has_no_history_and_holds_nothing_of_the_tensor) {
  ask_all([](const Subject& s) {
    const at::Tensor x = s.input({64, 64}).set_requires_grad(true);
    const Encoded encoded = s.codec().encode(x, kKey).value();
    EXPECT_EQ(x.use_count(), 1U);
    EXPECT_EQ(x.storage().use_count(), 1U);
    const at::Tensor y = s.codec().decode(encoded);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(same_bits(s.codec().decode(encoded), y)) << "a second time";
    EXPECT_NE(s.codec().decode(encoded).const_data_ptr(), y.const_data_ptr());
  });
}

TEST(CodecContract, on_a_cpu_knows_at_once_what_it_holds) {
  ask_all([](const Subject& s) {
    EXPECT_EQ(s.codec().encode(s.input({64, 64}), kKey).value().answer, nullptr);
  });
}

/// An answer as a GPU would give it.
class FixedAnswer final : public DeviceAnswer {
 public:
  explicit FixedAnswer(State state) : state_(state) {}
  State poll() override { return State::kPending; }
  State wait() override { return state_; }

 private:
  State state_;
};

TEST(DeviceAnswer, of_loss_makes_decode_fail) {
  for (const test::NamedCodec& named : test::all_codecs()) {
    const bool may_lose = named.codec->lossless();
    if (!may_lose) continue;
    const at::Tensor x = test::suitable_for(named.name, test::normals({64, 64}));
    Encoded encoded = named.codec->encode(x, kKey).value();
    encoded.answer = std::make_shared<FixedAnswer>(DeviceAnswer::State::kHolds);
    EXPECT_TRUE(same_bits(named.codec->decode(encoded), x)) << named.name;
    encoded.answer = std::make_shared<FixedAnswer>(DeviceAnswer::State::kLost);
    EXPECT_THROW((void)named.codec->decode(encoded), c10::Error) << named.name;
  }
}

TEST(CodecContract, no_two_codecs_have_one_name) {
  std::set<std::string> names;
  for (const test::NamedCodec& named : test::all_codecs()) {
    EXPECT_TRUE(names.insert(named.name).second) << named.name;
  }
}

using test::kAnyKey;

int64_t bytes_of(const Encoded& encoded) {
  int64_t bytes = 0;
  for (const at::Tensor& part : encoded.parts) bytes += static_cast<int64_t>(part.nbytes());
  return bytes;
}

TEST(ChainedCodec, encodes_one_part_and_leaves_the_others) {
  const std::shared_ptr<const Codec> sparse = make_sparse_codec(0.6);
  const auto chained = make_chained_codec(sparse, make_reduced_codec(8), 2);
  const at::Tensor x = test::suitable_for("ssdc", test::normals({64, 64}));
  const Encoded plain = sparse->encode(x, kAnyKey).value();
  const Encoded encoded = chained->encode(x, kAnyKey).value();
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
    const Encoded encoded = chained->encode(x, kAnyKey).value();
    chained->finish_encoding();
    chained->prefetch(encoded);
    EXPECT_EQ(host->usage().held_bytes, bytes_of(sparse->encode(x, kAnyKey).value()));
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
      make_chained_codec(make_sparse_codec(0.6), make_reduced_codec(8), 2)->encode(dense, kAnyKey));
  const std::shared_ptr<const Codec> no_room = make_host_offload(c10::Device("cpu"), 100);
  EXPECT_FALSE(make_chained_codec(make_sparse_codec(0.6), no_room)->encode(sparse, kAnyKey));
}

/// A codec whose answer is not there yet, as on a GPU.
class Undecided final : public Codec {
 public:
  explicit Undecided(DeviceAnswer::State end) : end_(end) {}
  std::string_view name() const override { return "undecided"; }
  bool lossless() const override { return true; }
  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& /*key*/) const override {
    struct Fixed final : DeviceAnswer {
      State end = State::kPending;
      State poll() override { return State::kPending; }
      State wait() override { return end; }
    };
    Encoded encoded;
    encoded.parts = {x.clone()};
    encoded.sizes = x.sizes().vec();
    encoded.strides = x.strides().vec();
    encoded.dtype = x.scalar_type();
    const auto answer = std::make_shared<Fixed>();
    answer->end = end_;
    encoded.answer = answer;
    return encoded;
  }
  at::Tensor decode(const Encoded& encoded) const override { return encoded.parts.at(0).clone(); }

 private:
  DeviceAnswer::State end_;
};

TEST(ChainedCodec, holds_where_both_hold) {
  using State = DeviceAnswer::State;
  const at::Tensor x = test::normals({64});
  const auto joint = [&](State outer, State inner) {
    const auto chained =
        make_chained_codec(std::make_shared<Undecided>(outer), std::make_shared<Undecided>(inner));
    const Encoded encoded = chained->encode(x, kAnyKey).value();
    EXPECT_EQ(encoded.answer->poll(), State::kPending);
    const State end = encoded.answer->wait();
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
