#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/codecs/codec.h"
#include "memopt/record/step_graph.h"
#include "memopt/treatment/recipe.h"

namespace noisemark::memopt {

/// The place that a value comes from when backward needs it.
enum class Source : uint8_t {
  kUnavailable,  ///< comes from nowhere: nobody saved it and nothing may recompute it
  kModel,        ///< the parameter or buffer itself
  kHeld,         ///< is kept as it was saved
  kEncoded,      ///< is kept in another form
  kSliced,       ///< is cut out of another saved value and kept
  kMadeAgain,    ///< comes from a recipe
};

/// The reason for which a value is held although the policy would rather drop it, or move it.
enum class KeepReason : uint8_t {
  kNone,            ///< it is not held
  kForeign,         ///< is made outside the recorded pass
  kNotAllowed,      ///< the policy does not replay its operator
  kUnrepeatable,    ///< its operator draws random numbers, or its arguments change
  kNoHistory,       ///< is made without autograd, which could not tell if it were made otherwise
  kWrittenInPlace,  ///< its memory was written after it was made
  kAsItIs,  ///< a cast of a parameter, or read in a form that is not plain (conjugate, sparse)
  kCrossesSegments,  ///< Mirror keeps it
  kSmall,            ///< a small result of a large computation
  kInputMissing,     ///< an input of its operator is not to be had
  kMustBeKept,       ///< a recipe was not exact, would come too late or free no memory, or many
                     ///< others would run before it
  kNoRoomOnHost,     ///< it was to go to host memory, which was full
  kCostly,           ///< it costs much to recompute, and a budget has room to hold it
  kExact,            ///< to round it could spoil a gradient (record/exact_storages.h)
  kTypeNotRounded,   ///< the mode rounds no tensor of its type: it is float64 or complex
  kHeldAnyway,       ///< the program holds it until backward has read it: a copy would come on top
};
[[nodiscard]] std::string_view keep_reason_name(KeepReason reason);
/// The policy could recompute the value and prefers to keep it.
[[nodiscard]] bool is_choice(KeepReason reason);
/// The policy rounds, and does not round this value.
[[nodiscard]] bool is_refused_rounding(KeepReason reason);

struct ValueTreatment {
  Source source = Source::kUnavailable;
  KeepReason reason = KeepReason::kNone;  ///< set for kHeld and kEncoded
  const Codec* codec = nullptr;           ///< set for kEncoded, and for kSliced if encoded too
  /// The codecs to try in this order where `codec` does not take the value.
  std::vector<const Codec*> next_codecs = {};
  /// Set for kEncoded: the value whose slot brings all of the memory that they share; kNone: alone.
  ValueId encoded_with = kNone;
  RecipeId recipe = kNone;     ///< kMadeAgain
  SlotId supplied_by = kNone;  ///< kHeld, kEncoded, kSliced: the slot that brings it
  bool light = false;          ///< kMadeAgain, under Policy::light: where an operator that is not
                               ///< cheap is called again, it is made for that call alone
  int32_t reads = 0;           ///< reads that one backward pass is expected to make, by recipes and
                               ///< by slots
  bool rounded = false;        ///< it is rounded: a codec rounds it, or something it is made from
};

struct SlotTreatment {
  ValueId value = kNone;
  bool drops = false;         ///< the slot keeps nothing; unpacking makes or decodes the value
  bool supplies = false;      ///< others need the value: it is held for them too
  std::vector<Slice> slices;  ///< parts that are cut out of the saved tensor when it is saved
};

/// Codecs to find out about in a pass that verifies, whatever the plan does with the value.
struct CodecTrial {
  std::vector<std::shared_ptr<const Codec>> codecs;  ///< lossless codecs; of one name those of
                                                     ///< fewer bits come first
  bool whole = false;  ///< they are given all of the memory that the value lies in
};

/// The treatment of every tensor that autograd saves in a step like the recorded one.
struct TreatmentPlan {
  std::shared_ptr<const StepGraph> graph;
  std::vector<ValueTreatment> values;
  std::vector<SlotTreatment> slots;
  std::vector<std::shared_ptr<const Recipe>> recipes;
  std::vector<std::shared_ptr<const Codec>> codecs;  ///< codecs that the values above use
  std::map<ValueId, CodecTrial> trials;  ///< one for each saved value and slice; the first saved
                                         ///< value of a storage stands for all of it
  /// Passes after the one that verifies look at what products and activations saved, too. A look
  /// takes memory, which no prediction has: a plan for a budget does without.
  bool looks_again = true;

  /// Tells each value that must stay held, beside the model's, as long as `id` is to be had: what
  /// it is made from, and what holds it.
  void each_need(ValueId id, const auto& tell) const {
    const ValueTreatment& value = values[static_cast<size_t>(id)];
    const auto tell_unless_model = [&](ValueId need) {
      if (values[static_cast<size_t>(need)].source != Source::kModel) tell(need);
    };
    if (value.encoded_with != kNone && value.encoded_with != id) {
      tell_unless_model(value.encoded_with);
    }
    if (value.source != Source::kMadeAgain) return;
    const Recipe& recipe = *recipes[static_cast<size_t>(value.recipe)];
    for (const ValueId input : recipe.inputs) tell_unless_model(input);
  }
};

/// The figures of a plan, for reports; bytes count storages once and leave the model's out.
struct PlanSummary {
  int64_t recorded_bytes = 0;  ///< bytes saved without a plan
  int64_t held_bytes = 0;      ///< bytes kept as saved, and slices
  int64_t encoded_from_bytes = 0;
  int64_t dropped_bytes = 0;
  int32_t recipes = 0;
  int64_t unrounded_storages = 0;  ///< storages that a lossy mode does not round (held_groups())
  int64_t unrounded_bytes = 0;     ///< bytes of those storages, as they were saved
};
[[nodiscard]] PlanSummary summarize(const TreatmentPlan& plan);

/// Bytes of the storages that a plan keeps, in whatever form, for a reason that is no choice: no
/// plan of the same policy could recompute them.
[[nodiscard]] int64_t irreplaceable_bytes(const TreatmentPlan& plan);

/// Storages that a plan holds as they were saved, by who made them and why they stay.
struct HeldGroup {
  std::string made_by;  ///< operator, "outside" for the batch
  KeepReason reason = KeepReason::kNone;
  int64_t storages = 0;
  int64_t bytes = 0;
};
/// The largest comes first.
[[nodiscard]] std::vector<HeldGroup> held_groups(const TreatmentPlan& plan);

}  // namespace noisemark::memopt
