#include "memopt/autograd/model_view.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace noisemark::memopt {

struct SegmentScope::Link {
  const std::string name;
  const std::shared_ptr<Link> outer;
  bool ended = false;
};

namespace {

/// The innermost scope, or one inside of it that has ended. The recorder is called by LibTorch,
/// which passes nothing along.
thread_local std::shared_ptr<SegmentScope::Link> innermost_segment;

SegmentScope::Link* innermost_segment_open() {
  while (innermost_segment != nullptr && innermost_segment->ended) {
    innermost_segment = innermost_segment->outer;
  }
  return innermost_segment.get();
}

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

SegmentScope::SegmentScope(std::string name) {
  if (name.empty()) throw std::invalid_argument("segment scope: name: empty (a name)");
  link_ = std::make_shared<Link>(std::move(name), innermost_segment);
  innermost_segment = link_;
}

SegmentScope::~SegmentScope() {
  if (std::this_thread::get_id() != thread_) {
    std::fputs("SegmentScope: a scope ended on another thread than it began on\n", stderr);
    std::terminate();
  }
  link_->ended = true;
  static_cast<void>(innermost_segment_open());  // lets go of it
}

const std::string* SegmentScope::current() {
  const Link* innermost = innermost_segment_open();
  return innermost == nullptr ? nullptr : &innermost->name;
}

}  // namespace noisemark::memopt
