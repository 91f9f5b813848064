#include "memopt/autograd/model_view.h"

#include <stdexcept>
#include <utility>

namespace noisemark::memopt {
namespace {

/// The recorder is called by LibTorch, which passes nothing along.
thread_local const SegmentScope* innermost_segment = nullptr;

}  // namespace

int64_t gradient_bytes(const ModelView& model) {
  int64_t bytes = 0;
  const auto add = [&bytes](const at::Tensor& part) {
    if (part.layout() == at::kStrided) bytes += static_cast<int64_t>(part.nbytes());
  };
  for (const auto& [name, parameter] : model.parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (gradient.layout() == at::kSparse) {
      add(gradient._indices());
      add(gradient._values());
    } else {
      add(gradient);
    }
  }
  return bytes;
}

SegmentScope::SegmentScope(std::string name) : name_(std::move(name)), outer_(innermost_segment) {
  if (name_.empty()) throw std::invalid_argument("segment scope: name: empty (a name)");
  innermost_segment = this;
}

SegmentScope::~SegmentScope() {
  innermost_segment = outer_;
}

const std::string* SegmentScope::current() {
  return innermost_segment == nullptr ? nullptr : &innermost_segment->name_;
}

}  // namespace noisemark::memopt
