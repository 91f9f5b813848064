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
  std::shared_ptr<Link> outer;
};

namespace {

/// The recorder is called by LibTorch, which passes nothing along.
thread_local std::shared_ptr<SegmentScope::Link> innermost_segment;

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
  // It leaves the chain also where an inner scope is open, or the chain would grow for ever.
  for (auto* link = &innermost_segment; *link != nullptr; link = &(*link)->outer) {
    if (*link != link_) continue;
    *link = std::shared_ptr<Link>(link_->outer);
    break;
  }
}

const std::string* SegmentScope::current() {
  return innermost_segment == nullptr ? nullptr : &innermost_segment->name;
}

}  // namespace noisemark::memopt
