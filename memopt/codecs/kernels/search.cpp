// Compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come from CMake.
#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/kernels/kernels.h"

namespace noisemark::memopt::codecs::NOISEMARK_LEVEL {
namespace {

template <typename Type>
Extent extent_of_all(const typename Type::Bits* x, int64_t count) {
  using Search = ExtentSearch<Type>;
  typename Search::Signed largest = 0;
  typename Search::Signed specials = 0;
#pragma omp simd reduction(max : largest) reduction(| : specials)
  for (int64_t i = 0; i < count; ++i) {
    const auto entry = static_cast<typename Search::Signed>(Search::entry_of(x[i]));
    largest = larger(largest, entry);
    specials = static_cast<typename Search::Signed>(specials | entry);
  }
  return Search{static_cast<typename Search::Bits>(largest),
                static_cast<typename Search::Bits>(specials)}
      .extent();
}

Extent extent(const SearchJob& job, int64_t begin, int64_t end) {
  Extent found = 0;
  with_real(job.real, [&](auto type) {
    using Type = decltype(type);
    const auto* x = static_cast<const typename Type::Bits*>(job.x);
    found = extent_of_all<Type>(x + begin, end - begin);
  });
  return found;
}

}  // namespace

extern const SearchKernels kSearch;
const SearchKernels kSearch = {extent};

}  // namespace noisemark::memopt::codecs::NOISEMARK_LEVEL
