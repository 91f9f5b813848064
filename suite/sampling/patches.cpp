#include "suite/sampling/patches.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "reports/base/error.h"
#include "suite/parallel/messages.h"

namespace noisemark::suite {
namespace {

struct PatchModeEntry {
  const char* word;
  PatchMode mode;
  NormRule norm = NormRule::kCorrectedStale;
};

constexpr std::array kPatchModes{
    PatchModeEntry{"full_sync", PatchMode::kFullSync},
    PatchModeEntry{"displaced", PatchMode::kDisplaced},
    PatchModeEntry{"sync_gn", PatchMode::kDisplaced, NormRule::kSynchronous},
    PatchModeEntry{"stale_gn", PatchMode::kDisplaced, NormRule::kStale},
    PatchModeEntry{"separate_gn", PatchMode::kDisplaced, NormRule::kOwn},
    PatchModeEntry{"no_sync", PatchMode::kNoSync},
};

}  // namespace

std::vector<std::string> patch_modes() {
  std::vector<std::string> words;
  for (const PatchModeEntry& entry : kPatchModes) words.emplace_back(entry.word);
  return words;
}

void set_patch_mode(const std::string& word, PatchOptions& to) {
  for (const PatchModeEntry& entry : kPatchModes) {
    if (entry.word != word) continue;
    to.mode = entry.mode;
    to.norm = entry.norm;
  }
}

std::string patch_word(const PatchOptions& options) {
  for (const PatchModeEntry& entry : kPatchModes) {
    const bool same_rule = entry.norm == options.norm || entry.mode != PatchMode::kDisplaced;
    if (entry.mode == options.mode && same_rule) return entry.word;
  }
  return "";
}

void require_equal_bands(int64_t ranks, const ModelConfig& model) {
  const auto refuse = [&](const std::string& accepted) {
    throw bad_input("--patch-parallel", "", std::to_string(ranks), accepted);
  };
  const int64_t factor = int64_t{1} << (model.dim_mults.size() - 1);
  const int64_t lowest = model.resolution / factor;
  if (ranks < 1 || lowest % ranks != 0) {
    refuse(fmt::format("a divisor of the {} rows that the image has in its lowest stage", lowest));
  }
  const int64_t reach = first_kernel_of(model) / 2;
  if (model.resolution / ranks < reach) {
    refuse(fmt::format("at most {}: the first convolution reaches {} rows into the next band",
                       model.resolution / reach, reach));
  }
}

/// Gives this rank's layers the other bands, by the number of their question.
class PatchedDenoiser::Exchange final : public RowExchange {
 public:
  Exchange(std::shared_ptr<Group> group, const PatchOptions& options)
      : group_(std::move(group)), options_(options) {}
  ~Exchange() override {
    try {
      settle();
    } catch (const std::exception&) {  // the group is lost, which was said before
    }
  }

  void forget() {
    settle();
    places_.clear();
  }
  void begin(const at::Tensor& whole, bool synchronous) {
    whole_ = whole;
    synchronous_ = synchronous;
    next_ = 0;
  }

  [[nodiscard]] bool is_synchronous() const override { return synchronous_; }
  [[nodiscard]] NormRule norm_rule() const override {
    return options_.mode == PatchMode::kNoSync ? NormRule::kOwn : options_.norm;
  }
  [[nodiscard]] bool unbiased_variance() const override { return options_.unbiased_variance; }
  [[nodiscard]] int64_t bands() const override { return group_->rank().ranks; }

  [[nodiscard]] Parts gather(const at::Tensor& own, bool fresh) override {
    Place& place = next_place();
    if (fresh) {
      place.parts = Gathering(group_, own).wait();
      return {place.parts, own};
    }
    if (place.coming) place.parts = place.coming->wait();
    Parts parts{place.parts, place.parts[band()]};
    parts.all[band()] = own;
    if (options_.mode != PatchMode::kNoSync) place.coming.emplace(group_, own);
    return parts;
  }

  void skip() override { (void)next_place(); }

  [[nodiscard]] Halo halo(const at::Tensor& first, const at::Tensor& last) override {
    if (next_ == 0) return halo_of_input(first.size(2), last.size(2));
    const std::vector<at::Tensor> all = gather(at::cat({first, last}, 2), synchronous_).all;
    Halo halo;
    if (band() > 0) halo.above = all[band() - 1].narrow(2, first.size(2), last.size(2));
    if (band() + 1 < all.size()) halo.below = all[band() + 1].narrow(2, 0, first.size(2));
    return halo;
  }

 private:
  struct Place {
    std::vector<at::Tensor> parts;    ///< parts of all ranks that came last
    std::optional<Gathering> coming;  ///< parts for the next call
  };

  [[nodiscard]] size_t band() const { return static_cast<size_t>(group_->rank().rank); }

  Place& next_place() {
    if (next_ == places_.size()) places_.emplace_back();
    return places_[next_++];
  }

  /// Every rank has the whole input, so that the first layer needs nobody.
  Halo halo_of_input(int64_t below, int64_t above) {
    (void)next_place();
    const int64_t rows = whole_.size(2) / bands();
    const int64_t begin = group_->rank().rank * rows;
    Halo halo;
    if (band() > 0) halo.above = whole_.narrow(2, begin - above, above);
    if (begin + rows < whole_.size(2)) halo.below = whole_.narrow(2, begin + rows, below);
    return halo;
  }

  void settle() {
    for (Place& place : places_) {
      if (place.coming) (void)place.coming->wait();
      place.coming.reset();
    }
  }

  std::shared_ptr<Group> group_;
  PatchOptions options_;
  at::Tensor whole_;
  bool synchronous_ = true;
  size_t next_ = 0;
  std::vector<Place> places_;
};

PatchedDenoiser::PatchedDenoiser(std::shared_ptr<Denoiser> whole, const ModelConfig& model,
                                 std::shared_ptr<Group> group, const PatchOptions& options)
    : whole_(register_module("whole", std::move(whole))),
      model_(model),
      group_(std::move(group)),
      options_(options),
      exchange_(std::make_unique<Exchange>(group_, options)) {
  require_equal_bands(group_->rank().ranks, model);
}

PatchedDenoiser::~PatchedDenoiser() = default;

namespace {

/// A displaced step waits for the output, and for group norms whose statistics are new.
Traffic waited_displaced(const PatchElements& elements, const PatchOptions& options,
                         const at::Tensor& out) {
  const bool norms =
      options.mode == PatchMode::kDisplaced && options.norm == NormRule::kSynchronous;
  Traffic waited;
  waited.operations = 1 + (norms ? elements.group_norms : 0);
  waited.bytes =
      (elements.output + (norms ? elements.norms : 0)) * static_cast<int64_t>(out.element_size());
  return waited;
}

}  // namespace

void PatchedDenoiser::begin_samples() {
  step_ = 0;
  exchange_->forget();
}

at::Tensor PatchedDenoiser::forward(const at::Tensor& x, const at::Tensor& t) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const Traffic before = group_->traffic();
  const bool synchronous = options_.mode == PatchMode::kFullSync || step_++ <= options_.warmup;
  exchange_->begin(x, synchronous);
  const int64_t rows = x.size(2) / group_->rank().ranks;
  const at::Tensor band = x.narrow(2, group_->rank().rank * rows, rows);
  const at::Tensor out = [&] {
    const RowsGuard guard(*exchange_);
    return whole_->forward(band, t);
  }();
  const at::Tensor joined = at::cat(Gathering(group_, out).wait(), 2);

  PatchTally& tally = synchronous ? synchronous_ : displaced_;
  const PatchElements elements = patch_elements(model_, x.size(0), group_->rank().ranks);
  int64_t given = elements.output;
  if (synchronous || options_.mode != PatchMode::kNoSync) given += elements.layers;
  const bool own_norms = options_.mode == PatchMode::kDisplaced && options_.norm == NormRule::kOwn;
  if (!synchronous && own_norms) given -= elements.norms;
  ++tally.steps;
  tally.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  tally.expected_bytes += given * static_cast<int64_t>(out.element_size());
  const Traffic given_now = group_->traffic() - before;
  tally.traffic += given_now;
  tally.waited += synchronous ? given_now : waited_displaced(elements, options_, out);
  last_band_ = band;
  last_t_ = t;
  return joined;
}

namespace {

/// Answers for all bands with what the own one has.
class Alone final : public RowExchange {
 public:
  explicit Alone(int64_t bands) : bands_(bands) {}
  [[nodiscard]] bool is_synchronous() const override { return true; }
  [[nodiscard]] NormRule norm_rule() const override { return NormRule::kSynchronous; }
  [[nodiscard]] bool unbiased_variance() const override { return false; }
  [[nodiscard]] int64_t bands() const override { return bands_; }
  [[nodiscard]] Parts gather(const at::Tensor& own, bool /*fresh*/) override {
    return {std::vector<at::Tensor>(static_cast<size_t>(bands_), own), own};
  }
  void skip() override {}
  [[nodiscard]] Halo halo(const at::Tensor& first, const at::Tensor& last) override {
    return {last, first};
  }

 private:
  int64_t bands_;
};

/// The shortest of a few, which others disturb least.
template <typename Action>
double shortest_s(const Action& action) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTimes = 5;
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    const Clock::time_point start = Clock::now();
    action();
    shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return shortest;
}

}  // namespace

PatchProbe PatchedDenoiser::probe() {
  const c10::InferenceMode no_gradients;
  const EvaluationModeGuard evaluation_mode(*this);
  exchange_->forget();
  const int64_t ranks = group_->rank().ranks;
  Alone alone(ranks);
  PatchProbe probe;
  probe.band_s = shortest_s([&] {
    const RowsGuard guard(alone);
    (void)whole_->forward(last_band_, last_t_);
  });
  const auto exchange_s = [&](int64_t bytes) {
    const at::Tensor sent = at::zeros({bytes}, at::kByte);
    return shortest_s([&] { (void)Gathering(group_, sent).wait(); });
  };
  constexpr int64_t kMany = int64_t{1} << 22;
  probe.operation_s = exchange_s(1);
  probe.bytes_per_s = static_cast<double>(kMany) / exchange_s(kMany);
  return probe;
}

}  // namespace noisemark::suite
