#include "suite/probes/convolution_events.h"

#include <kineto/ActivityType.h>

#include "suite/probes/convolution_operators.h"
#include "suite/probes/host_range.h"

namespace noisemark::suite {
namespace {

namespace kineto = torch::autograd::profiler;

libkineto::ActivityType type_of(const kineto::KinetoEvent& event) {
  return static_cast<libkineto::ActivityType>(event.activityType());
}

std::vector<int64_t> sizes_of(const kineto::KinetoEvent& event, size_t argument) {
  const auto shapes = event.shapes();
  return argument < shapes.size() ? shapes[argument] : std::vector<int64_t>{};
}

std::vector<int64_t> integers_of(const kineto::KinetoEvent& event, size_t argument) {
  const auto inputs = event.concreteInputs();
  if (argument >= inputs.size() || !inputs[argument].isList()) return {};
  std::vector<int64_t> integers;
  for (const c10::IValue& value : inputs[argument].toListRef()) {
    if (!value.isInt()) return {};
    integers.push_back(value.toInt());
  }
  return integers;
}

}  // namespace

ConvolutionEvents convolution_events(const kineto::ProfilerResult& result) {
  ConvolutionEvents events;
  for (const kineto::KinetoEvent& event : result.events()) {
    if (type_of(event) == libkineto::ActivityType::CONCURRENT_KERNEL) {
      events.kernels.push_back(
          {event.name(), event.linkedCorrelationId(), static_cast<int64_t>(event.durationNs())});
      continue;
    }
    if (!is_host_range(event.deviceType(), type_of(event))) continue;
    const ConvolutionOperator* found = find_convolution_operator(event.name());
    if (found == nullptr) continue;
    events.calls.push_back({event.correlationId(), found->gradient, sizes_of(event, found->input),
                            sizes_of(event, found->weight), integers_of(event, found->stride)});
  }
  return events;
}

}  // namespace noisemark::suite
