#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace noisemark::suite {

/// What is broken on purpose in a training, so that a self-test can show that it is noticed. Parts
/// are handed one as a value and break themselves by it; the default breaks nothing. No option, key
/// or variable of the command line leads here.
struct Fault {
  int64_t leaked_bytes = 0;           ///< allocated in every forward pass, held with the trainer
  std::optional<double> loss_factor;  ///< times every training loss, and so its gradients
  int64_t lost_bytes = 0;             ///< of a weight, which the walk of its owner does not see
  std::optional<int64_t> halved_from = std::nullopt;  ///< from this step on batches have half of
                                                      ///< their pictures: no pass is as recorded
  /// Under a mode other than "none": masks of dropout are drawn again when backward asks for them,
  /// from where the generator then is, as by a recomputation that does not restore it.
  bool redrawn_dropout = false;
  /// Under a mode other than "none": saved activations come back at 2 bits between the smallest
  /// and the largest of the whole tensor, as of "q2" without scales of groups.
  bool coarse_saving = false;
  bool undivided_loss = false;  ///< gradients of micro-batches are added up, not averaged
  bool late_average = false;    ///< the average takes the weights of the step before

  bool operator==(const Fault&) const = default;
};

/// "16.00 MiB leaked in every forward pass"; empty for a fault that breaks nothing.
[[nodiscard]] std::string fault_words(const Fault& fault);

}  // namespace noisemark::suite
