#include "memopt/codecs/codecs.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <utility>

#include "memopt/codecs/encoding.h"

namespace noisemark::memopt {
namespace {

/// Holds where all of its parts hold.
class JointAnswer final : public DeviceAnswer {
 public:
  explicit JointAnswer(std::vector<std::shared_ptr<DeviceAnswer>> parts)
      : parts_(std::move(parts)) {}
  State poll() override {
    State joint = State::kHolds;
    for (const std::shared_ptr<DeviceAnswer>& part : parts_) {
      const State state = part->poll();
      if (state == State::kLost) return state;
      if (state == State::kPending) joint = state;
    }
    return joint;
  }
  State wait() override {
    const bool all = std::all_of(parts_.begin(), parts_.end(),
                                 [](const auto& part) { return part->wait() == State::kHolds; });
    return all ? State::kHolds : State::kLost;
  }

 private:
  std::vector<std::shared_ptr<DeviceAnswer>> parts_;
};

/// The facts that decoding needs beyond the parts.
struct Links {
  Encoded outer;                              ///< its parts that were encoded are undefined
  std::vector<std::optional<Encoded>> inner;  ///< one for each part of `outer`
};

class ChainedCodec final : public Codec {
 public:
  ChainedCodec(std::shared_ptr<const Codec> outer, std::shared_ptr<const Codec> inner,
               std::optional<size_t> part)
      : outer_(std::move(outer)),
        inner_(std::move(inner)),
        part_(part),
        name_(std::string(outer_->name()) + "+" + std::string(inner_->name())) {}
  std::string_view name() const override { return name_; }
  std::string form() const override { return outer_->form() + "+" + inner_->form(); }
  bool lossless() const override { return outer_->lossless() && inner_->lossless(); }
  bool keeps_sign() const override { return outer_->keeps_sign() && inner_->lossless(); }

  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& key) const override {
    std::optional<Encoded> outer = outer_->encode(x, key);
    if (!outer) return std::nullopt;
    auto links = std::make_shared<Links>();
    Encoded encoded = codecs::described(x);
    std::vector<std::shared_ptr<DeviceAnswer>> answers;
    if (outer->answer != nullptr) answers.push_back(outer->answer);
    for (size_t p = 0; p < outer->parts.size(); ++p) {
      links->inner.emplace_back();
      if (part_.value_or(p) != p) {
        encoded.parts.push_back(outer->parts[p]);
        continue;
      }
      std::optional<Encoded> inner = inner_->encode(outer->parts[p], key);
      if (!inner) return std::nullopt;
      if (inner->answer != nullptr) answers.push_back(inner->answer);
      encoded.parts.insert(encoded.parts.end(), inner->parts.begin(), inner->parts.end());
      outer->parts[p] = at::Tensor();
      links->inner.back() = std::move(*inner);
    }
    links->outer = std::move(*outer);
    encoded.state = std::move(links);
    if (!answers.empty()) encoded.answer = std::make_shared<JointAnswer>(std::move(answers));
    return encoded;
  }

  std::vector<PartSize> parts_of(int64_t elements, at::ScalarType type) const override {
    std::vector<PartSize> parts;
    const std::vector<PartSize> outer = outer_->parts_of(elements, type);
    for (size_t p = 0; p < outer.size(); ++p) {
      if (part_.value_or(p) != p) {
        parts.push_back(outer[p]);
        continue;
      }
      const std::vector<PartSize> inner = inner_->parts_of(outer[p].elements, outer[p].type);
      parts.insert(parts.end(), inner.begin(), inner.end());
    }
    return parts;
  }

  at::Tensor example(int64_t elements) const override { return outer_->example(elements); }

  void finish_encoding() const override {
    outer_->finish_encoding();
    inner_->finish_encoding();
  }

  void prefetch(const Encoded& encoded) const override {
    for (const std::optional<Encoded>& inner : links_of(encoded).inner) {
      if (inner.has_value()) inner_->prefetch(*inner);
    }
  }

  at::Tensor decode(const Encoded& encoded) const override {
    codecs::require_kept(*this, encoded);
    const Links& links = links_of(encoded);
    Encoded outer = links.outer;
    for (size_t p = 0; p < links.inner.size(); ++p) {
      if (links.inner[p].has_value()) outer.parts[p] = inner_->decode(*links.inner[p]);
    }
    return outer_->decode(outer);
  }

 private:
  static const Links& links_of(const Encoded& encoded) {
    return *static_cast<const Links*>(encoded.state.get());
  }

  std::shared_ptr<const Codec> outer_;
  std::shared_ptr<const Codec> inner_;
  std::optional<size_t> part_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Codec> make_chained_codec(std::shared_ptr<const Codec> outer,
                                          std::shared_ptr<const Codec> inner,
                                          std::optional<size_t> part) {
  TORCH_CHECK(outer != nullptr && inner != nullptr, "chained codec: both codecs must be given");
  return std::make_unique<ChainedCodec>(std::move(outer), std::move(inner), part);
}

}  // namespace noisemark::memopt
