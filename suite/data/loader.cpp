#include "suite/data/loader.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "suite/random/counter_rng.h"

namespace noisemark::suite {
namespace {

/// Images that a thread takes at once: few, so that all threads help one batch.
constexpr int64_t kPortion = 8;

/// Maps positions to images of the dataset: a new permutation every epoch.
class Order {
 public:
  Order(uint64_t seed, int64_t pictures)
      : seed_(seed), permutation_(static_cast<size_t>(pictures)) {}

  /// `position` counts samples since step 0. It is cheap when epochs come in order.
  int64_t picture(int64_t position) {
    const auto count = static_cast<int64_t>(permutation_.size());
    if (position / count != epoch_) shuffle(position / count);
    return permutation_[position % count];
  }

 private:
  void shuffle(int64_t epoch) {
    epoch_ = epoch;
    std::iota(permutation_.begin(), permutation_.end(), int64_t{0});
    CounterRng rng(seed_, Stream::kOrder, static_cast<uint64_t>(epoch), 0);
    for (size_t left = permutation_.size(); left > 1; --left) {  // Fisher-Yates
      std::swap(permutation_[left - 1], permutation_[rng.next_below(left)]);
    }
  }

  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> permutation_;
};

void flip_rows(std::span<float> picture, int64_t width) {
  for (auto row = picture.begin(); row != picture.end(); row += width) {
    std::reverse(row, row + width);
  }
}

/// A batch in the making.
struct Slot {
  Batch batch;
  std::vector<int64_t> pictures;  ///< index in the dataset, per sample
  int64_t taken = 0;              ///< samples handed to threads
  int64_t done = 0;               ///< samples finished, well or not
  int64_t failed_sample = -1;     ///< the first, -1: none
  std::exception_ptr failure;
};

}  // namespace

struct Loader::State {
  State(std::shared_ptr<const Dataset> pictures, const Definition& d, const LoaderOptions& o);
  ~State();

  void work();
  [[nodiscard]] Batch next();

  std::shared_ptr<const Dataset> dataset;
  Definition definition;
  LoaderOptions options;
  Order order;
  int64_t samples;  ///< this rank's samples in a batch

  std::mutex mutex;
  std::condition_variable work_appeared;
  std::condition_variable batch_ready;
  std::deque<Slot> slots;  ///< consecutive steps, the consumer's next one in front
  int64_t next_slot_step;  ///< the step that the next new slot will hold
  bool stopping = false;
  std::exception_ptr failure;
  std::vector<std::thread> threads;

 private:
  struct Portion {
    Slot* slot;
    int64_t begin;
    int64_t end;
  };

  [[nodiscard]] bool is_full(const Slot& slot) const { return slot.taken == samples; }
  /// The number of a sample of this rank's in the batch of all.
  [[nodiscard]] int64_t number_of(int64_t sample) const {
    return options.share.sample(sample, definition.train.batch, definition.train.accumulation);
  }
  /// Needs the lock. Null slot: nothing to do now.
  [[nodiscard]] Portion take_portion();
  void open_slot();
  void make_sample(const Slot& slot, int64_t sample) const;
  void stop();
};

Loader::State::State(std::shared_ptr<const Dataset> pictures, const Definition& d,
                     const LoaderOptions& o)
    : dataset(std::move(pictures)),
      definition(d),
      options(o),
      order(d.seed, dataset->size(Split::kTrain)),
      samples(d.train.batch / o.share.ranks),
      next_slot_step(o.first_step) {
  TORCH_CHECK(options.threads >= 1 && options.prefetch >= 1, "a loader needs a thread and a slot");
  TORCH_CHECK(dataset->size(Split::kTrain) >= 1, "a loader needs images");
  try {
    for (int64_t i = 0; i < options.threads; ++i) threads.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

Loader::State::~State() {
  stop();
}

void Loader::State::stop() {
  {
    const std::scoped_lock lock(mutex);
    stopping = true;
  }
  work_appeared.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void Loader::State::open_slot() {
  const memopt::OwnerScope owner(memopt::Owner::kInput);
  const std::vector<int64_t> shape{samples, dataset->channels(), dataset->resolution(),
                                   dataset->resolution()};
  const auto pinned = at::TensorOptions().pinned_memory(options.pinned);
  Slot slot;
  slot.batch.step = next_slot_step;
  slot.batch.images = at::empty(shape, pinned.dtype(at::kFloat));
  slot.batch.timesteps = at::empty({samples}, pinned.dtype(at::kLong));
  if (options.noise) slot.batch.noise = at::empty(shape, pinned.dtype(at::kFloat));
  for (int64_t i = 0; i < samples; ++i) {
    slot.pictures.push_back(order.picture(next_slot_step * definition.train.batch + number_of(i)));
  }
  slots.push_back(std::move(slot));  // a deque: slots that threads hold do not move
  ++next_slot_step;
}

Loader::State::Portion Loader::State::take_portion() {
  const bool all_full = slots.empty() || is_full(slots.back());
  if (all_full) {
    const bool room = static_cast<int64_t>(slots.size()) < options.prefetch;
    if (!room || next_slot_step >= options.last_step || failure) return {nullptr, 0, 0};
    open_slot();
  }
  Slot& slot = slots.back();
  const int64_t begin = slot.taken;
  slot.taken = std::min(begin + kPortion, samples);
  return {&slot, begin, slot.taken};
}

void Loader::State::make_sample(const Slot& slot, int64_t sample) const {
  const int64_t width = dataset->resolution();
  const int64_t values = dataset->channels() * width * width;
  const auto step = static_cast<uint64_t>(slot.batch.step);
  const auto key = static_cast<uint64_t>(number_of(sample));
  const auto rng = [&](Stream stream) { return CounterRng(definition.seed, stream, step, key); };

  const std::span picture(slot.batch.images.mutable_data_ptr<float>() + sample * values,
                          static_cast<size_t>(values));
  dataset->read(Split::kTrain, slot.pictures[sample], picture);
  if (definition.data.flip && (rng(Stream::kFlip).next_u32() & 1U) != 0) flip_rows(picture, width);
  slot.batch.timesteps.mutable_data_ptr<int64_t>()[sample] = static_cast<int64_t>(
      rng(Stream::kTimestep).next_below(static_cast<uint64_t>(definition.diffusion.timesteps)));
  if (options.noise) {
    rng(Stream::kNoise)
        .fill_normal(std::span(slot.batch.noise.mutable_data_ptr<float>() + sample * values,
                               static_cast<size_t>(values)));
  }
}

void Loader::State::work() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    Portion portion{};
    try {
      portion = take_portion();
    } catch (...) {  // no memory for a slot, or no page-locked memory
      failure = std::current_exception();
      batch_ready.notify_all();
    }
    if (portion.slot == nullptr) {
      work_appeared.wait(lock);
      continue;
    }
    lock.unlock();
    std::exception_ptr error;
    int64_t sample = portion.begin;
    try {
      for (; sample < portion.end; ++sample) make_sample(*portion.slot, sample);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    Slot& slot = *portion.slot;
    if (error && (slot.failed_sample < 0 || sample < slot.failed_sample)) {
      slot.failed_sample = sample;
      slot.failure = error;
    }
    slot.done += portion.end - portion.begin;
    if (slot.done == samples) batch_ready.notify_all();
  }
}

Batch Loader::State::next() {
  std::unique_lock lock(mutex);
  const bool exhausted = slots.empty() && next_slot_step >= options.last_step;
  TORCH_CHECK(!exhausted, "the loader ends before step ", options.last_step);
  const auto ready = [this] {
    return slots.empty() ? failure != nullptr : slots.front().done == samples;
  };
  batch_ready.wait(lock, ready);
  if (!slots.empty() && slots.front().failure) failure = slots.front().failure;
  if (slots.empty() || slots.front().failure) std::rethrow_exception(failure);
  Batch batch = std::move(slots.front().batch);
  slots.pop_front();
  lock.unlock();
  work_appeared.notify_all();
  return batch;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const Definition& definition,
               const LoaderOptions& options)
    : state_(std::make_unique<State>(std::move(dataset), definition, options)) {}

Loader::~Loader() = default;

Batch Loader::next() {
  return state_->next();
}

}  // namespace noisemark::suite
