#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// One description of a JSON document's fields. The reader, the writer, the published schema and
/// the tables of documentation all follow from it:
///
///     template <>
///     struct Fields<DataFile> {
///       static constexpr About kAbout{"DataFile", "A file of the data folder."};
///       static constexpr std::tuple kAll{
///           field("name", &DataFile::name, "path relative to the data folder").not_empty(),
///           field("bytes", &DataFile::bytes, "size of the file").at_least(0)};
///     };
///
/// Every field has a text for a reader of the file, or the compiler refuses it. A field that is
/// added when there are files already is .left_out_if_empty(), so that they are still read.
///
/// A member may be a bool, an integer, a double, a string, an enumeration with Names, a struct with
/// Fields, a Tree, and an optional, a list or a map by text of these.
namespace noisemark::reports::json {

/// Restricts a value beyond its type. In a list or a map it holds for every entry.
struct Rule {
  std::optional<double> at_least = std::nullopt;
  std::optional<double> above = std::nullopt;
  std::optional<double> at_most = std::nullopt;
  std::string_view pattern = {};   ///< a regular expression of JSON Schema
  std::string_view one_of = {};    ///< accepted texts or integers, joined by '|'; empty: all
  bool not_empty = false;          ///< a text has at least one character
  bool gaps = false;               ///< a list of numbers may have gaps: NaN here, null in the file
  bool left_out_if_empty = false;  ///< the key is absent where the value is empty
  bool one_line = false;           ///< a list of structs takes one line of the file
  bool time = false;               ///< a text is a time that there is, as is_utc() says
};

/// The texts of Rule::one_of; none where it is empty.
[[nodiscard]] std::vector<std::string> accepted_texts(const Rule& rule);

template <class Struct, class Value>
struct Field {
  std::string_view key;
  Value Struct::*member;
  std::string_view text;  ///< one line for a reader of the file
  Rule rule = {};

  constexpr Field at_least(double bound) const {
    return changed([&](Rule& to) { to.at_least = bound; });
  }
  constexpr Field above(double bound) const {
    return changed([&](Rule& to) { to.above = bound; });
  }
  constexpr Field at_most(double bound) const {
    return changed([&](Rule& to) { to.at_most = bound; });
  }
  constexpr Field pattern(std::string_view expression) const {
    return changed([&](Rule& to) { to.pattern = expression; });
  }
  constexpr Field one_of(std::string_view accepted) const {
    return changed([&](Rule& to) { to.one_of = accepted; });
  }
  constexpr Field not_empty() const {
    return changed([](Rule& to) { to.not_empty = true; });
  }
  constexpr Field gaps() const {
    return changed([](Rule& to) { to.gaps = true; });
  }
  constexpr Field left_out_if_empty() const {
    return changed([](Rule& to) { to.left_out_if_empty = true; });
  }
  constexpr Field time() const {
    return changed([](Rule& to) { to.time = true; });
  }
  constexpr Field on_one_line() const {
    return changed([](Rule& to) { to.one_line = true; });
  }

 private:
  template <class Change>
  constexpr Field changed(Change change) const {
    Field copy = *this;
    change(copy.rule);
    return copy;
  }
};

/// Refuses an empty text: at compile time, because fields are constants.
constexpr std::string_view required_text(std::string_view text) {
  if (text.empty()) throw std::logic_error("a field needs a text");
  return text;
}

template <class Struct, class Value>
constexpr Field<Struct, Value> field(std::string_view key, Value Struct::*member,
                                     std::string_view text) {
  return {key, member, required_text(text)};
}

/// Describes a member that `Struct` inherits likewise: field<Struct>(...).
template <class Struct, class Base, class Value>
requires std::is_base_of_v<Base, Struct>
constexpr Field<Struct, Value> field(std::string_view key, Value Base::*member,
                                     std::string_view text) {
  return {key, member, required_text(text)};
}

/// A key whose value is made from the others, in a document that is only written.
template <class Struct, class Value>
struct Computed {
  std::string_view key;
  Value (*of)(const Struct& object);
  std::string_view text;
  Rule rule = {};
};

template <class Struct, class Value>
constexpr Computed<Struct, Value> computed(std::string_view key, Value (*of)(const Struct&),
                                           std::string_view text) {
  return {key, of, required_text(text)};
}

inline constexpr std::string_view kSha256 = "^[0-9a-f]{64}$";
inline constexpr std::string_view kSha256OrEmpty = "^([0-9a-f]{64})?$";

/// The name of a struct in the schema, and one sentence about it.
struct About {
  std::string_view name;
  std::string_view text;
};

/// Every struct of a document specializes it, as shown above.
template <class Struct>
struct Fields;

template <class Struct>
concept Described = requires {
  Fields<Struct>::kAll;
};

/// Every enumeration of a document specializes it: its constants and their texts.
template <class Enum>
inline constexpr std::array<std::pair<Enum, std::string_view>, 0> kNames{};

/// The text of a constant; empty: it has none.
template <class Enum>
constexpr std::string_view name_of(Enum constant) {
  for (const auto& [known, name] : kNames<Enum>) {
    if (known == constant) return name;
  }
  return {};
}

/// A part of a document that is only written, and whose fields another page describes.
struct Tree {
  std::string text;  ///< JSON
};

/// The type of a value in a document, as a value: for the schema and the documentation.
struct Shape {
  enum class Kind { kBool, kInteger, kNumber, kText, kTree, kList, kMap, kStruct };
  struct Member {
    std::string_view key;
    std::string_view text;
    Rule rule;
    std::shared_ptr<const Shape> shape;
  };
  Kind kind = Kind::kText;
  bool nullable = false;
  std::vector<std::string> names = {};           ///< texts of an enumeration
  std::shared_ptr<const Shape> entry = nullptr;  ///< type of the entries of a list or a map
  About about = {};                              ///< name and text of a struct
  std::vector<Member> members = {};              ///< fields of a struct
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

/// Returns whether a value is an empty optional, text, list or map.
template <class T>
bool is_empty(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return !value;
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else {
    return false;
  }
}

template <class T>
Shape shape_of() {
  using Kind = Shape::Kind;
  if constexpr (IsOptional<T>::value) {
    Shape shape = shape_of<typename T::value_type>();
    shape.nullable = true;
    return shape;
  } else if constexpr (IsList<T>::value) {
    return {.kind = Kind::kList,
            .entry = std::make_shared<Shape>(shape_of<typename T::value_type>())};
  } else if constexpr (IsMap<T>::value) {
    return {.kind = Kind::kMap,
            .entry = std::make_shared<Shape>(shape_of<typename T::mapped_type>())};
  } else if constexpr (Described<T>) {
    Shape shape{.kind = Kind::kStruct, .about = Fields<T>::kAbout};
    const auto add =
        [&]<template <class, class> class Kind_, class Value>(const Kind_<T, Value>& one) {
          shape.members.push_back(
              {one.key, one.text, one.rule, std::make_shared<Shape>(shape_of<Value>())});
        };
    std::apply([&](const auto&... all) { (add(all), ...); }, Fields<T>::kAll);
    return shape;
  } else if constexpr (std::is_enum_v<T>) {
    Shape shape{.kind = Kind::kText};
    for (const auto& [constant, name] : kNames<T>) shape.names.emplace_back(name);
    return shape;
  } else if constexpr (std::is_same_v<T, Tree>) {
    return {.kind = Kind::kTree};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {.kind = Kind::kBool};
  } else if constexpr (std::is_integral_v<T>) {
    return {.kind = Kind::kInteger};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {.kind = Kind::kNumber};
  } else {
    static_assert(std::is_same_v<T, std::string>);
    return {.kind = Kind::kText};
  }
}

/// A kind of document. Its first key is `schema`, with name and version, its second the checksum.
struct Document {
  std::string_view name;             ///< "noisemark.result"; its schema is result.schema.json
  std::string_view text;             ///< a sentence for the schema and the documentation
  bool sealed = true;                ///< it has a checksum
  std::string_view printed_by = {};  ///< a command that prints it, without schema and checksum
  std::string_view version = "1.0.0";
};

/// A document with the shape of all that stands behind its schema and checksum: what is published
/// of it follows from both.
struct Published {
  Document document;
  Shape body;
};

/// The JSON Schema (draft-07) of a document.
[[nodiscard]] std::string schema_text(const Document& document, const Shape& body);

/// The name of the file that has this text: "result.schema.json".
[[nodiscard]] std::string schema_file(const Document& document);

/// Tables of every field in Markdown, a struct each: type, unit and text.
[[nodiscard]] std::string fields_markdown(const Document& document, const Shape& body);

}  // namespace noisemark::reports::json
