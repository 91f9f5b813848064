#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace noisemark::memopt {

/// The view that a mode has of the model it serves. Tensors are shared, not copied.
struct ModelView {
  std::vector<std::pair<std::string, at::Tensor>> parameters;  ///< names as in state dict
  std::vector<at::Tensor> buffers;
  uint64_t seed = 0;  ///< seed of modes that round stochastically
  /// Forward passes that a step may hold before their backwards, where the program knows it
  /// beforehand.
  int64_t passes_together = 1;
  int64_t bytes_of_open_pass = 0;  ///< each of them holds so much beside what autograd saves
};

/// Returns the bytes of all gradients that the parameters have now, of sparse ones those of their
/// parts; other layouts count as none.
[[nodiscard]] int64_t gradient_bytes(const ModelView& model);

/// Says which block of the model runs, where the names of its parameters do not
/// (segments_of()): while it is alive, whatever the calling thread computes belongs to the
/// block of this name, of nested scopes the innermost. They may end in any order; one that ends on
/// another thread than it began on ends the program with a sentence. Blocks are what "mirror" keeps
/// the inputs of and runs again, and what a budget decides about one by one. "mirror:sqrt" cuts the
/// step by itself.
///
/// Open it around part of every forward pass, with the same name in each. Parts of the same name
/// are one block, so what runs more than once should not carry one name if its runs are to be
/// blocks of their own. Costs one small allocation where nothing is recorded.
class [[nodiscard]] SegmentScope {
 public:
  /// Throws std::invalid_argument for an empty name.
  explicit SegmentScope(std::string name);
  ~SegmentScope();
  SegmentScope(const SegmentScope&) = delete;
  SegmentScope& operator=(const SegmentScope&) = delete;

  /// The name of the calling thread's innermost scope; null where none is open.
  [[nodiscard]] static const std::string* current();

  /// A scope as its thread knows it, which may outlive it there.
  struct Link;

 private:
  std::shared_ptr<Link> link_;
  std::thread::id thread_ = std::this_thread::get_id();
};

}  // namespace noisemark::memopt
