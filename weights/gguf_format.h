// Constants of the GGUF container, versions 2 and 3, little endian.
// Spec: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A file is
//   u8[4]  "GGUF"
//   u32    version
//   u64    number of tensors
//   u64    number of metadata entries
//   entry  key string, u32 value type, value                          (repeated)
//   info   name string, u32 n_dims, u64 dims[n_dims], u32 tensor type, u64 offset      (repeated)
//   pad    zeros to the next multiple of general.alignment (default 32)
//   data   each tensor at its offset from here, a multiple of the alignment
// A string is u64 length and its bytes; an array is u32 element type, u64 count and its elements; a bool is
// one byte, 0 or 1. Dimensions are listed innermost first: a [n_out, n_in] matrix has dims {n_in, n_out}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace ibid {

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufTypeCount = 13;

// Name of the type in messages: "U32", "STRING".
std::string_view gguf_type_name(GgufType type);
// Bytes of a value of this type; 0 for strings and arrays, whose size varies.
size_t gguf_type_bytes(GgufType type);
inline bool gguf_type_is_integer(GgufType type) {
  return type <= GgufType::kI32 || type == GgufType::kU64 || type == GgufType::kI64;
}

// The tensor type with a given number: whether the reader supports it, and its name.
struct GgufTensorType {
  enum Support { kReadable, kKnown, kRemoved, kUnknown } support;
  std::string_view name;      // "Q4_1", "IQ4_NL"; for removed types their former name
  DType dtype = DType::kF32;  // set only for kReadable
};
GgufTensorType gguf_tensor_type(uint32_t number);
// Returns the type's number in GGUF; nullopt for types that GGUF tensors cannot have: U8, BOOL, one-byte floats.
std::optional<uint32_t> gguf_tensor_type_number(DType dtype);

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint64_t kGgufDefaultAlignment = 32;
inline constexpr uint64_t kGgufMaxAlignment = 4096;     // size of a memory page; larger values may overflow arithmetic
inline constexpr uint32_t kGgufMaxDims = 4;             // GGML_MAX_DIMS
inline constexpr uint64_t kGgufMaxKeyBytes = 65535;     // limit of the specification
inline constexpr uint64_t kGgufMaxNameBytes = 64;       // limit of the specification
inline constexpr uint64_t kGgufMaxKeys = 65536;         // real files have fewer than 200 keys
inline constexpr uint64_t kGgufMaxTensors = 262144;     // the largest known model has 70,000 tensors
inline constexpr uint64_t kGgufMaxElements = 1u << 28;  // elements of an array; real vocabularies have 300,000 tokens
inline constexpr uint64_t kGgufMinEntryBytes = 8 + 1 + 4 + 1;
inline constexpr uint64_t kGgufMinInfoBytes = 8 + 1 + 4 + 4 + 8;

}  // namespace ibid
