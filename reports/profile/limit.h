#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/profile/profile.h"
#include "reports/render/check.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// One sentence that names what limits the speed of a step and where the most is to be won, by the
/// roofline and, of a GPU, by the time that it worked. Empty without a roofline.
[[nodiscard]] std::string limit_words(const Profile& profile);

/// Reads `folder`/profile, in which `noisemark profile` was told to write. Returns limit_words() of
/// it; the difference in words where it is of other work than `result`; why it is not known where
/// the profile cannot be read, which goes to `unread` too; and nothing where no profile is there.
/// Throws Error (bad input) for one that was changed.
[[nodiscard]] std::string limit_of(const std::filesystem::path& folder, const Result& result,
                                   std::vector<Finding>& unread);

/// Finds the profiles, in the folders of the results below `path`, that were changed after they
/// were written. Throws Error (bad input) as result_folders() does.
[[nodiscard]] std::vector<Finding> check_profiles(const std::filesystem::path& path);

}  // namespace noisemark::reports
