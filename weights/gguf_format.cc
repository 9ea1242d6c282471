#include "weights/gguf_format.h"

#include <iterator>

namespace ibid {

namespace {

struct ValueType {
  std::string_view name;
  size_t bytes;
};

// By GgufType.
constexpr ValueType kValueTypes[kGgufTypeCount] = {
    {"U8", 1},   {"I8", 1},     {"U16", 2},   {"I16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},
    {"BOOL", 1}, {"STRING", 0}, {"ARRAY", 0}, {"U64", 8}, {"I64", 8}, {"F64", 8},
};

using Type = GgufTensorType;

// By number: enum ggml_type in ggml.h. 36 to 38 and 31 to 33 were repacked layouts of single machines.
constexpr Type kTensorTypes[] = {
    {Type::kReadable, "F32", DType::kF32},
    {Type::kReadable, "F16", DType::kF16},
    {Type::kReadable, "Q4_0", DType::kQ4_0},
    {Type::kReadable, "Q4_1", DType::kQ4_1},
    {Type::kRemoved, "Q4_2"},
    {Type::kRemoved, "Q4_3"},
    {Type::kReadable, "Q5_0", DType::kQ5_0},
    {Type::kReadable, "Q5_1", DType::kQ5_1},
    {Type::kReadable, "Q8_0", DType::kQ8_0},
    {Type::kKnown, "Q8_1"},
    {Type::kReadable, "Q2_K", DType::kQ2_K},
    {Type::kReadable, "Q3_K", DType::kQ3_K},
    {Type::kReadable, "Q4_K", DType::kQ4_K},
    {Type::kReadable, "Q5_K", DType::kQ5_K},
    {Type::kReadable, "Q6_K", DType::kQ6_K},
    {Type::kKnown, "Q8_K"},
    {Type::kKnown, "IQ2_XXS"},
    {Type::kKnown, "IQ2_XS"},
    {Type::kKnown, "IQ3_XXS"},
    {Type::kKnown, "IQ1_S"},
    {Type::kKnown, "IQ4_NL"},
    {Type::kKnown, "IQ3_S"},
    {Type::kKnown, "IQ2_S"},
    {Type::kKnown, "IQ4_XS"},
    {Type::kReadable, "I8", DType::kI8},
    {Type::kReadable, "I16", DType::kI16},
    {Type::kReadable, "I32", DType::kI32},
    {Type::kReadable, "I64", DType::kI64},
    {Type::kReadable, "F64", DType::kF64},
    {Type::kKnown, "IQ1_M"},
    {Type::kReadable, "BF16", DType::kBF16},
    {Type::kRemoved, "Q4_0_4_4"},
    {Type::kRemoved, "Q4_0_4_8"},
    {Type::kRemoved, "Q4_0_8_8"},
    {Type::kKnown, "TQ1_0"},
    {Type::kKnown, "TQ2_0"},
    {Type::kRemoved, "IQ4_NL_4_4"},
    {Type::kRemoved, "IQ4_NL_4_8"},
    {Type::kRemoved, "IQ4_NL_8_8"},
    {Type::kKnown, "MXFP4"},
    {Type::kKnown, "NVFP4"},
    {Type::kKnown, "Q1_0"},
    {Type::kKnown, "Q2_0"},
};

}  // namespace

std::string_view gguf_type_name(GgufType type) { return kValueTypes[static_cast<size_t>(type)].name; }
size_t gguf_type_bytes(GgufType type) { return kValueTypes[static_cast<size_t>(type)].bytes; }

GgufTensorType gguf_tensor_type(uint32_t number) {
  if (number >= std::size(kTensorTypes)) return {Type::kUnknown, "unknown"};
  return kTensorTypes[number];
}

std::optional<uint32_t> gguf_tensor_type_number(DType dtype) {
  for (uint32_t number = 0; number < std::size(kTensorTypes); ++number) {
    if (kTensorTypes[number].support == Type::kReadable && kTensorTypes[number].dtype == dtype) return number;
  }
  return std::nullopt;
}

}  // namespace ibid
