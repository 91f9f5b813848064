#include "reports/html/page.h"

// The assembler copies a file's bytes between two symbols.
#define NOISEMARK_EMBED(NAME, FILE)                                                            \
  __asm__(".pushsection .rodata\nnoisemark_" #NAME ":\n.incbin \"" FILE "\"\nnoisemark_" #NAME \
          "_end:\n.byte 0\n.popsection\n"                                                      \
          ".global noisemark_" #NAME "\n.global noisemark_" #NAME "_end\n");                   \
  extern "C" const char noisemark_##NAME[];                                                    \
  extern "C" const char noisemark_##NAME##_end[]

NOISEMARK_EMBED(page_style, NOISEMARK_PAGE ".css");
NOISEMARK_EMBED(page_script, NOISEMARK_PAGE ".js");
NOISEMARK_EMBED(plotly, NOISEMARK_PLOTLY);
NOISEMARK_EMBED(plotly_licence, NOISEMARK_PLOTLY ".licence");

namespace noisemark::reports {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

PageAssets page_assets() {
  return {between(noisemark_page_style, noisemark_page_style_end),
          between(noisemark_page_script, noisemark_page_script_end),
          between(noisemark_plotly, noisemark_plotly_end),
          between(noisemark_plotly_licence, noisemark_plotly_licence_end)};
}

}  // namespace noisemark::reports
