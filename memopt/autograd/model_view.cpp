#include "memopt/autograd/model_view.h"

#include <stdexcept>
#include <utility>

namespace noisemark::memopt {
namespace {

/// The recorder is called by LibTorch, which passes nothing along.
thread_local const SegmentScope* innermost = nullptr;

}  // namespace

SegmentScope::SegmentScope(std::string name) : name_(std::move(name)), outer_(innermost) {
  if (name_.empty()) throw std::invalid_argument("segment scope: name: empty (a name)");
  innermost = this;
}

SegmentScope::~SegmentScope() {
  innermost = outer_;
}

const std::string* SegmentScope::current() {
  return innermost == nullptr ? nullptr : &innermost->name_;
}

}  // namespace noisemark::memopt
