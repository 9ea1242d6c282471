#include "weights/gguf_format.h"

#include <utility>

#include "base/number_formats.h"

namespace ibid {

namespace {

struct ValueType {
  std::string_view name;
  size_t bytes;
};

// Indexed by GgufType.
constexpr ValueType kValueTypes[kGgufTypeCount] = {
    {"U8", 1},   {"I8", 1},     {"U16", 2},   {"I16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},
    {"BOOL", 1}, {"STRING", 0}, {"ARRAY", 0}, {"U64", 8}, {"I64", 8}, {"F64", 8},
};

using Type = GgufTensorType;

struct OtherType {
  uint32_t number;
  Type type;
};

// Values of enum ggml_type in ggml.h that have no row in base/number_formats.h. Q8_1 and Q8_K are inputs of ggml's dot
// products and are in no file; 31 to 33 and 36 to 38 were layouts repacked for one CPU family.
constexpr OtherType kOtherTypes[] = {
    {4, {Type::kRemoved, "Q4_2"}},        {5, {Type::kRemoved, "Q4_3"}},        {9, {Type::kKnown, "Q8_1"}},
    {15, {Type::kKnown, "Q8_K"}},         {31, {Type::kRemoved, "Q4_0_4_4"}},   {32, {Type::kRemoved, "Q4_0_4_8"}},
    {33, {Type::kRemoved, "Q4_0_8_8"}},   {36, {Type::kRemoved, "IQ4_NL_4_4"}}, {37, {Type::kRemoved, "IQ4_NL_4_8"}},
    {38, {Type::kRemoved, "IQ4_NL_8_8"}}, {41, {Type::kKnown, "Q1_0"}},         {42, {Type::kKnown, "Q2_0"}},
};

}  // namespace

std::string_view gguf_type_name(GgufType type) { return kValueTypes[static_cast<size_t>(type)].name; }
size_t gguf_type_bytes(GgufType type) { return kValueTypes[static_cast<size_t>(type)].bytes; }

GgufTensorType gguf_tensor_type(uint32_t number) {
  for (const NumberFormat& format : all_number_formats()) {
    if (std::cmp_equal(format.gguf_number, number)) return {Type::kReadable, format.name, format.dtype};
  }
  for (const OtherType& other : kOtherTypes) {
    if (other.number == number) return other.type;
  }
  return {Type::kUnknown, "unknown"};
}

std::optional<uint32_t> gguf_tensor_type_number(DType dtype) {
  const int number = number_format(dtype).gguf_number;
  return number < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(number));
}

}  // namespace ibid
