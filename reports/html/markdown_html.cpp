#include "reports/html/markdown_html.h"

#include <fmt/format.h>
#include <md4c.h>

#include <array>
#include <cctype>
#include <map>
#include <stdexcept>

#include "reports/base/markdown.h"

namespace noisemark::reports {
namespace {

constexpr std::array<std::string_view, 5> kTags{"<details>", "</details>", "<summary>",
                                                "</summary>", "<br>"};

/// Bytes of the entity with which `text` begins, "&lt;" or "&#60;"; 0 where it begins with none.
size_t entity_size(std::string_view text) {
  constexpr size_t kLongest = 12;
  size_t end = 1;
  while (end < text.size() && end < kLongest &&
         (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '#')) {
    ++end;
  }
  return end > 1 && end < text.size() && text[end] == ';' ? end + 1 : 0;
}

/// Bytes of `text`, which begins with '<', that are an accepted tag; 0 if it begins with none.
size_t tag_size(std::string_view text) {
  for (const std::string_view tag : kTags) {
    if (text.starts_with(tag)) return tag.size();
  }
  return 0;
}

/// Raw HTML of the Markdown: the accepted tags, entities, and all else as the text that it is.
std::string accepted_html(std::string_view raw) {
  constexpr std::string_view kComment = "<!--";
  constexpr std::string_view kCommentEnd = "-->";
  std::string html;
  while (!raw.empty()) {
    size_t size = 1;
    if (raw.starts_with(kComment)) {
      const size_t end = raw.find(kCommentEnd, kComment.size());
      size = end == std::string_view::npos ? raw.size() : end + kCommentEnd.size();
    } else if (const size_t tag = raw[0] == '<' ? tag_size(raw) : 0; tag > 0) {
      html += raw.substr(0, size = tag);
    } else if (const size_t entity = raw[0] == '&' ? entity_size(raw) : 0; entity > 0) {
      html += raw.substr(0, size = entity);
    } else {
      html += html_text(raw.substr(0, 1));
    }
    raw.remove_prefix(size);
  }
  return html;
}

/// A path that no browser takes for the address of a script or of another protocol.
std::string safe_address(std::string_view path) {
  if (path.starts_with("https://") || path.starts_with("http://")) return std::string(path);
  const size_t colon = path.find(':');
  const bool scheme = colon < path.find_first_of("/?#");
  return scheme ? "./" + std::string(path) : std::string(path);
}

std::string text_of(const MD_ATTRIBUTE& attribute) {
  return attribute.text == nullptr ? "" : std::string(attribute.text, attribute.size);
}

const char* alignment(MD_ALIGN align) {
  return align == MD_ALIGN_RIGHT ? " class=\"right\"" : "";
}

template <class Type>
struct Tags {
  Type type{};
  const char* open = "";  ///< is empty where the tag has attributes of its own
  const char* close = "";
};

constexpr std::array kBlockTags{
    Tags<MD_BLOCKTYPE>{MD_BLOCK_QUOTE, "<blockquote>\n", "</blockquote>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_UL, "<ul>\n", "</ul>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_OL, "", "</ol>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_LI, "<li>", "</li>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_HR, "<hr>\n", ""},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_CODE, "<pre><code>", "</code></pre>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_P, "<p>", "</p>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_TABLE, "<div class=\"scroll\"><table>\n", "</table></div>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_THEAD, "<thead>\n", "</thead>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_TBODY, "<tbody>\n", "</tbody>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_TR, "<tr>", "</tr>\n"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_TH, "", "</th>"},
    Tags<MD_BLOCKTYPE>{MD_BLOCK_TD, "", "</td>"}};

constexpr std::array kSpanTags{Tags<MD_SPANTYPE>{MD_SPAN_EM, "<em>", "</em>"},
                               Tags<MD_SPANTYPE>{MD_SPAN_STRONG, "<strong>", "</strong>"},
                               Tags<MD_SPANTYPE>{MD_SPAN_CODE, "<code>", "</code>"},
                               Tags<MD_SPANTYPE>{MD_SPAN_A, "", "</a>"}};

/// Returns the tags of `type`; empty ones where it has none.
template <class Table>
typename Table::value_type tags_of(const Table& table, decltype(table.front().type) type) {
  for (const auto& tags : table) {
    if (tags.type == type) return tags;
  }
  return {};
}

/// Takes what md4c finds, and writes HTML.
class Writer {
 public:
  Writer(const PictureHtml& picture, const LinkTarget& target, std::string_view prefix)
      : picture_(picture), target_(target), prefix_(prefix) {}

  void enter(MD_BLOCKTYPE type, void* detail);
  void leave(MD_BLOCKTYPE type, void* detail);
  void enter(MD_SPANTYPE type, void* detail);
  void leave(MD_SPANTYPE type, void* detail);
  void text(MD_TEXTTYPE type, std::string_view words);
  HtmlText finish() &&;

 private:
  void end_head();
  void begin_heading(int level);
  void end_heading(int level);
  [[nodiscard]] std::string id_of_heading();

  const PictureHtml& picture_;
  const LinkTarget& target_;
  std::string_view prefix_;
  HtmlText page_;
  std::string html_;
  std::string raw_;    ///< content of the block of HTML that is open
  std::string words_;  ///< plain text of the heading or picture that is open
  size_t heading_begins_ = 0;
  bool in_raw_ = false;
  int pictures_ = 0;  ///< number of pictures that are open
  std::map<std::string, int> ids_;
};

void Writer::end_head() {
  if (page_.head.empty()) page_.head.swap(html_);
}

void Writer::begin_heading(int level) {
  if (level == 2) end_head();
  words_.clear();
  heading_begins_ = html_.size();
}

/// Makes the id that GitHub makes: letters and digits, with a hyphen for a blank, and a number from
/// the second on.
std::string Writer::id_of_heading() {
  std::string id(prefix_);
  for (const char c : words_) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || byte >= 0x80) {
      id += static_cast<char>(std::tolower(byte));
    } else if (c == ' ') {
      id += '-';
    }
  }
  const int earlier = ids_[id]++;
  return earlier == 0 ? id : fmt::format("{}-{}", id, earlier);
}

void Writer::end_heading(int level) {
  const std::string words = html_.substr(heading_begins_);
  const std::string id = id_of_heading();
  html_.resize(heading_begins_);
  html_ += fmt::format("<h{0} id=\"{1}\">{2}</h{0}>\n", level, html_text(id), words);
  if (page_.title.empty()) page_.title = words_;
  if (!page_.head.empty()) page_.headings.push_back({level, id, words});
}

void Writer::enter(MD_BLOCKTYPE type, void* detail) {
  html_ += tags_of(kBlockTags, type).open;
  switch (type) {
    case MD_BLOCK_OL:
      html_ += fmt::format("<ol start=\"{}\">\n", static_cast<MD_BLOCK_OL_DETAIL*>(detail)->start);
      break;
    case MD_BLOCK_H:
      begin_heading(static_cast<int>(static_cast<MD_BLOCK_H_DETAIL*>(detail)->level));
      break;
    case MD_BLOCK_HTML:
      in_raw_ = true;
      break;
    case MD_BLOCK_TH:
      html_ += fmt::format("<th scope=\"col\"{}>",
                           alignment(static_cast<MD_BLOCK_TD_DETAIL*>(detail)->align));
      break;
    case MD_BLOCK_TD:
      html_ += fmt::format("<td{}>", alignment(static_cast<MD_BLOCK_TD_DETAIL*>(detail)->align));
      break;
    default:
      break;
  }
}

void Writer::leave(MD_BLOCKTYPE type, void* detail) {
  html_ += tags_of(kBlockTags, type).close;
  if (type == MD_BLOCK_H) {
    end_heading(static_cast<int>(static_cast<MD_BLOCK_H_DETAIL*>(detail)->level));
  } else if (type == MD_BLOCK_HTML) {
    in_raw_ = false;
    if (raw_.starts_with("<details>")) end_head();
    html_ += accepted_html(raw_);
    raw_.clear();
  }
}

void Writer::enter(MD_SPANTYPE type, void* detail) {
  if (type == MD_SPAN_IMG && pictures_++ == 0) words_.clear();
  if (pictures_ > 0) return;
  html_ += tags_of(kSpanTags, type).open;
  if (type == MD_SPAN_A) {
    const std::string address = text_of(static_cast<MD_SPAN_A_DETAIL*>(detail)->href);
    html_ += fmt::format("<a href=\"{}\">", html_text(safe_address(target_(address))));
  }
}

void Writer::leave(MD_SPANTYPE type, void* detail) {
  if (type == MD_SPAN_IMG && --pictures_ == 0) {
    html_ += picture_(words_, text_of(static_cast<MD_SPAN_IMG_DETAIL*>(detail)->src));
  }
  if (pictures_ == 0) html_ += tags_of(kSpanTags, type).close;
}

void Writer::text(MD_TEXTTYPE type, std::string_view words) {
  if (in_raw_) {
    raw_ += words;
    return;
  }
  const bool blank = type == MD_TEXT_SOFTBR || type == MD_TEXT_BR;
  words_ += blank ? " " : words;
  if (pictures_ > 0) return;
  switch (type) {
    case MD_TEXT_NULLCHAR:
      html_ += kReplacement;
      break;
    case MD_TEXT_BR:
      html_ += "<br>\n";
      break;
    case MD_TEXT_SOFTBR:
      html_ += "\n";
      break;
    case MD_TEXT_ENTITY:
      html_ += entity_size(words) == words.size() ? std::string(words) : html_text(words);
      break;
    case MD_TEXT_HTML:
      html_ += accepted_html(words);
      break;
    default:
      html_ += html_text(words);
  }
}

HtmlText Writer::finish() && {
  (page_.head.empty() ? page_.head : page_.rest) = std::move(html_);
  return std::move(page_);
}

Writer& writer(void* data) {
  return *static_cast<Writer*>(data);
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string html;
  html.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

HtmlText html_of(std::string_view markdown, const PictureHtml& picture, const LinkTarget& target,
                 std::string_view prefix) {
  Writer html(picture, target, prefix);
  MD_PARSER parser{};
  parser.flags = MD_FLAG_TABLES;
  parser.enter_block = [](MD_BLOCKTYPE type, void* detail, void* data) {
    writer(data).enter(type, detail);
    return 0;
  };
  parser.leave_block = [](MD_BLOCKTYPE type, void* detail, void* data) {
    writer(data).leave(type, detail);
    return 0;
  };
  parser.enter_span = [](MD_SPANTYPE type, void* detail, void* data) {
    writer(data).enter(type, detail);
    return 0;
  };
  parser.leave_span = [](MD_SPANTYPE type, void* detail, void* data) {
    writer(data).leave(type, detail);
    return 0;
  };
  parser.text = [](MD_TEXTTYPE type, const MD_CHAR* words, MD_SIZE size, void* data) {
    writer(data).text(type, {words, size});
    return 0;
  };
  if (md_parse(markdown.data(), static_cast<MD_SIZE>(markdown.size()), &parser, &html) != 0) {
    throw std::runtime_error("md4c cannot parse the page");
  }
  return std::move(html).finish();
}

}  // namespace noisemark::reports
