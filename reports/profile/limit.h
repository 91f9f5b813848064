#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/profile/profile.h"
#include "reports/render/check.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// The precisions that the baseline `fused` has kernels for.
inline constexpr std::array<std::string_view, 3> kFusedPrecisions{"fp32", "tf32", "bf16"};

[[nodiscard]] constexpr bool has_fused_kernels(std::string_view precision) {
  return std::find(kFusedPrecisions.begin(), kFusedPrecisions.end(), precision) !=
         kFusedPrecisions.end();
}

/// Another baseline that a step may be tried under, with the time of the operators that it executes
/// otherwise.
struct Proposal {
  std::string baseline;        ///< value that --baseline takes, with the words that it has already
  std::string_view operators;  ///< "convolutions"
  bool joins = false;          ///< joins them, so that it may win more than they take beyond
  double time_frac = 0;        ///< their time as a share of the profiled step
  double roof_frac = 0;        ///< the share that they would take at their roof

  /// The share that they take beyond their roof.
  [[nodiscard]] double beyond_frac() const { return time_frac - roof_frac; }
};

/// Returns what the profiled baseline does not have yet, where its operators take 1 % of a step or
/// more beyond their roof, by falling share. It is empty without a roofline.
[[nodiscard]] std::vector<Proposal> proposals(const Profile& profile);

/// Section «What to try» of profile.md. It is empty where there is no proposal.
[[nodiscard]] std::string proposals_section(const Profile& profile);

/// Says what limits the speed of a step and where the most is to be won, by the roofline and, of a
/// GPU, by the time that it worked; then what to try first, of a `run` by the command that compares
/// both. It is empty without a roofline.
[[nodiscard]] std::string limit_words(const Profile& profile, const Result* run = nullptr);

/// Returns the fields in which a run and a profile must agree for their steps to be the same work
/// on the same machine: those of same_work(), but for what belongs to a seed, the bytes of the
/// data, and what a definition says besides a step, such as the number of steps.
[[nodiscard]] Strings work_of(const Result& result);

/// Says the first thing in which what was made with `work` is of other work than a run whose
/// work_of() is `run`: "it was made with --threads 1, and the run with --threads 2". It is empty
/// where both are alike.
[[nodiscard]] std::string difference_words(const Strings& work, const Strings& run);

/// Reads `folder`/profile, in which `noisemark profile` was told to write. Returns limit_words() of
/// it; the difference in words where it is of other work than `result`; why it is not known where
/// the profile cannot be read, which goes to `unread` too; and nothing where no profile is there.
/// Throws Error (bad input) for one that was changed.
[[nodiscard]] std::string limit_of(const std::filesystem::path& folder, const Result& result,
                                   std::vector<Finding>& unread);

/// Returns whether `folder`/profile has a profile, unchanged and of the work of `result`.
[[nodiscard]] bool has_profile_of(const std::filesystem::path& folder, const Result& result);

/// Finds the profiles, in the folders of the results below `path`, that were changed after they
/// were written. Throws Error (bad input) as result_folders() does.
[[nodiscard]] std::vector<Finding> check_profiles(const std::filesystem::path& path);

}  // namespace noisemark::reports
