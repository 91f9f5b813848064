#include "suite/train/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "reports/quantity.h"

namespace noisemark::suite {

std::string fault_words(const Fault& fault) {
  std::vector<std::string> words;
  if (fault.leaked_bytes > 0) {
    words.push_back(reports::format_bytes(fault.leaked_bytes) + " leaked in every forward pass");
  }
  if (fault.loss_factor) words.push_back(fmt::format("loss times {}", *fault.loss_factor));
  if (fault.lost_bytes > 0) {
    words.push_back(reports::format_bytes(fault.lost_bytes) + " of a weight not counted");
  }
  if (fault.halved_from) {
    words.push_back(fmt::format("half of the batch from step {} on", *fault.halved_from));
  }
  if (fault.redrawn_dropout) words.emplace_back("masks of dropout drawn again in backward");
  if (fault.coarse_saving) words.emplace_back("activations at 2 bits without scales of groups");
  if (fault.undivided_loss) words.emplace_back("loss not divided by the micro-batches");
  if (fault.late_average) words.emplace_back("average one step behind");
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace noisemark::suite
