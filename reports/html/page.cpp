#include "reports/html/page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/base/sha256.h"
#include "reports/html/markdown_html.h"

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

namespace fs = std::filesystem;
using Data = std::vector<std::pair<std::string, std::string>>;

constexpr uintmax_t kMostPictureBytes = uintmax_t{1} << 20U;
constexpr uintmax_t kMostDataBytes = uintmax_t{3} << 19U;  // 1.5 MiB

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

/// The source of a policy that allows exactly this script.
std::string script_hash(std::string_view script) {
  std::string bytes;
  const std::string hex = sha256_of(script);
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return base64(bytes);
}

/// JSON in which no text ends the script that holds it: '<' stands only in strings there.
std::string json_in_html(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string kind_of_picture(const fs::path& file) {
  constexpr std::array kKinds{std::pair{".svg", "image/svg+xml"}, std::pair{".png", "image/png"}};
  for (const auto& [extension, kind] : kKinds) {
    if (file.extension() == extension) return kind;
  }
  return "";
}

std::string text_beside(fs::path file, const char* extension) {
  file.replace_extension(extension);
  return fs::is_regular_file(file) ? read_file(file) : "";
}

/// Takes pictures into the page, and notes what they were drawn from.
class Pictures {
 public:
  /// `part` is the name of the part of the page that has the picture.
  std::string html(const fs::path& folder, std::string_view part, std::string_view words,
                   std::string_view address) {
    const fs::path path = path_of_address(address);
    const fs::path file = folder / path;
    const std::string kind = kind_of_picture(file);
    std::error_code none;
    if (folder.empty() || kind.empty() || !leads_below(path) || !fs::is_regular_file(file, none) ||
        fs::file_size(file, none) > kMostPictureBytes) {
      return fmt::format("<em>{} ({})</em>", html_text(words), html_text(address));
    }
    // A picture behind an address of data runs no script, whatever the file holds.
    return fmt::format("<img class=\"plot\" data-plot=\"{}\" alt=\"{}\" src=\"data:{};base64,{}\">",
                       note(part, words, file), html_text(words), kind, base64(read_file(file)));
  }

  /// A list of JSON: part, title, data and script of gnuplot of each picture that has them.
  [[nodiscard]] std::string sources() const { return fmt::format("[{}]", sources_); }
  [[nodiscard]] bool any() const { return count_ > 0; }

 private:
  std::string note(std::string_view part, std::string_view words, const fs::path& file) {
    const std::string data = text_beside(file, ".dat");
    const std::string script = text_beside(file, ".gp");
    if (data.empty() || script.empty()) return "";
    sources_ +=
        fmt::format(R"({}{{"part":{},"title":{},"data":{},"script":{}}})", count_ == 0 ? "" : ",",
                    json_text(part), json_text(words), json_text(data), json_text(script));
    return std::to_string(count_++);
  }

  std::string sources_;
  size_t count_ = 0;
};

/// The report of a run beside this one has a page too where it was made before.
std::string page_of_link(const fs::path& folder, std::string_view address) {
  constexpr std::string_view kMarkdown = ".md";
  if (!folder.empty() && address.ends_with(kMarkdown)) {
    fs::path page = path_of_address(address);
    page.replace_extension(".html");
    std::error_code none;
    if (leads_below(page) && fs::is_regular_file(folder / page, none)) {
      return std::string(address.substr(0, address.size() - kMarkdown.size())) + ".html";
    }
  }
  return std::string(address);
}

/// Returns where a link of a part leads from the page that has it.
std::string link_of_part(const fs::path& folder, const std::string& name,
                         std::string_view address) {
  if (address.starts_with("#")) return "#" + name + "-" + std::string(address.substr(1));
  const bool elsewhere = address.starts_with("/") || address.find(':') < address.find('/');
  return elsewhere ? std::string(address) : page_of_link(folder, name + "/" + std::string(address));
}

/// Its headings are below one of their own, which stands in the page's contents.
std::string part_html(const fs::path& folder, const HtmlPart& part, Pictures& pictures,
                      std::vector<HtmlHeading>& headings) {
  const std::string prefix = part.name + "-";
  const HtmlText text = html_of(
      part.markdown,
      [&](std::string_view words, std::string_view path) {
        return pictures.html(folder / part.name, part.name, words, path);
      },
      [&](std::string_view path) { return link_of_part(folder, part.name, path); }, prefix);
  headings.push_back({2, "part-" + part.name, html_text(text.title)});
  return fmt::format(
      "<details id=\"part-{}\" data-part=\"{}\"><summary>{}</summary>\n{}{}</details>\n", part.name,
      part.name, html_text(text.title), text.head, text.rest);
}

std::string contents(const std::vector<HtmlHeading>& headings) {
  if (headings.empty()) return "";
  std::string html = "<nav aria-label=\"Contents\">\n<ul>\n";
  for (const HtmlHeading& one : headings) {
    if (one.level != 2) continue;
    html += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", html_text(one.id), one.html);
  }
  return html + "</ul>\n</nav>\n";
}

std::string data_script(const Data& data, const std::string& plots) {
  std::string json = fmt::format("\"plots\":{}", plots);
  for (const auto& [name, text] : data) json += fmt::format(",\n{}:{}", json_text(name), text);
  return fmt::format("<script type=\"application/json\" id=\"noisemark-data\">{{{}}}</script>\n",
                     json_in_html(json));
}

/// Returns whether scripts draw anything: the curves of a prediction or a comparison, or a picture
/// again from its data.
bool has_plots(const Data& data, const Pictures& pictures) {
  return pictures.any() || std::any_of(data.begin(), data.end(), [](const auto& one) {
           return one.first == "prediction" || (one.first == "pairs" && one.second != "[]");
         });
}

/// `plots`: the page has some.
std::string footer(const PageAssets& assets, bool plots) {
  if (!plots) return "";
  if (assets.plotly.empty()) {
    return fmt::format("<footer>\n<p>{}</p>\n</footer>\n", html_text(why_pictures()));
  }
  return fmt::format(
      "<footer>\n<details><summary>Where scripts run, plots are drawn by plotly.js, under this "
      "licence</summary>\n<pre>{}</pre>\n</details>\n</footer>\n",
      html_text(assets.plotly_licence));
}

/// Ends the policy that kPageBegins begins: no script runs but that of the page and the library in
/// it, and nothing is fetched.
std::string policy(const PageAssets& assets) {
  return fmt::format(
      "; style-src 'unsafe-inline'; script-src blob: 'sha256-{}'; base-uri 'none'; form-action "
      "'none'\">\n",
      script_hash(assets.script));
}

/// The text of `file` for the page's data, if it is JSON and not too long to carry along.
void add_data(const fs::path& file, const char* name, Data& data) {
  std::error_code none;
  if (!fs::is_regular_file(file, none) || fs::file_size(file, none) > kMostDataBytes) return;
  std::string text = read_file(file);
  if (nlohmann::json::accept(text)) data.emplace_back(name, std::move(text));
}

/// The file beside NAME.md from which scripts draw, and the name under which they find it.
struct DataOf {
  std::string_view markdown;
  const char* file;
  const char* data;
};
constexpr std::array kDataOf{DataOf{"report", "result.json", "result"},
                             DataOf{"profile", "memory_timeline.json", "timeline"},
                             DataOf{"predict", "predict.json", "prediction"}};

void add_data_of(const fs::path& markdown_file, Data& data) {
  for (const DataOf& one : kDataOf) {
    if (markdown_file.stem() == one.markdown) {
      add_data(markdown_file.parent_path() / one.file, one.data, data);
    }
  }
}

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

std::string html_page(const HtmlPage& page) {
  const PageAssets assets = page_assets();
  Pictures pictures;
  HtmlText text = html_of(
      page.markdown,
      [&](std::string_view words, std::string_view path) {
        return pictures.html(page.folder, "", words, path);
      },
      [&](std::string_view path) { return page_of_link(page.folder, path); });
  for (const HtmlPart& part : page.parts) {
    text.rest += part_html(page.folder, part, pictures, text.headings);
  }
  std::string html = fmt::format(
      "{}{}<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
      kPageBegins, policy(assets), html_text(text.title), assets.style);
  const bool plots = has_plots(page.data, pictures);
  html += fmt::format("<main>\n<header>\n{}</header>\n{}{}{}</main>\n{}", text.head,
                      contents(text.headings), text.rest, page.more, footer(assets, plots));
  html += data_script(page.data, pictures.sources());
  if (plots && !assets.plotly.empty()) {
    html += fmt::format("<script type=\"text/plain\" id=\"plotly\">{}</script>\n", assets.plotly);
  }
  return html + fmt::format("<script>{}</script>\n</body>\n</html>\n", assets.script);
}

std::string why_pictures() {
  return page_assets().plotly.empty()
             ? "Plots are pictures, because noisemark was built without plotly.js: install the "
               "Python package plotly, and configure with -DNOISEMARK_PLOTLY=DIR, its folder."
             : "";
}

fs::path write_html_beside(const fs::path& markdown_file, const std::vector<std::string>& parts) {
  HtmlPage page{read_file(markdown_file), markdown_file.parent_path()};
  add_data_of(markdown_file, page.data);
  for (const std::string& name : parts) {
    const fs::path part = page.folder / name / (name + ".md");
    std::error_code none;
    if (!fs::is_regular_file(part, none)) continue;
    page.parts.push_back({name, read_file(part)});
    add_data_of(part, page.data);
  }
  fs::path file = markdown_file;
  file.replace_extension(".html");
  write_file_atomically(file, html_page(page));
  return file;
}

}  // namespace noisemark::reports
