#include "suite/io/dtype_names.h"

#include <c10/util/Exception.h>

#include <array>

namespace noisemark::suite {
namespace {

struct DtypeEntry {
  std::string_view name;
  c10::ScalarType dtype;
};

constexpr std::array kDtypes{
    DtypeEntry{"F64", c10::ScalarType::Double},
    DtypeEntry{"F32", c10::ScalarType::Float},
    DtypeEntry{"F16", c10::ScalarType::Half},
    DtypeEntry{"BF16", c10::ScalarType::BFloat16},
    DtypeEntry{"F8_E4M3", c10::ScalarType::Float8_e4m3fn},
    DtypeEntry{"F8_E5M2", c10::ScalarType::Float8_e5m2},
    DtypeEntry{"I64", c10::ScalarType::Long},
    DtypeEntry{"I32", c10::ScalarType::Int},
    DtypeEntry{"I16", c10::ScalarType::Short},
    DtypeEntry{"I8", c10::ScalarType::Char},
    DtypeEntry{"U64", c10::ScalarType::UInt64},
    DtypeEntry{"U32", c10::ScalarType::UInt32},
    DtypeEntry{"U16", c10::ScalarType::UInt16},
    DtypeEntry{"U8", c10::ScalarType::Byte},
    DtypeEntry{"BOOL", c10::ScalarType::Bool},
};

}  // namespace

std::string_view dtype_name(c10::ScalarType dtype) {
  for (const DtypeEntry& entry : kDtypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  TORCH_CHECK(false, "safetensors has no element type ", dtype);
}

std::optional<c10::ScalarType> dtype_named(std::string_view name) {
  for (const DtypeEntry& entry : kDtypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const DtypeEntry& entry : kDtypes) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace noisemark::suite
