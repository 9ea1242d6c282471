// The types of keys and values as the command line, JSON and people call them.
#pragma once

#include <array>
#include <string_view>

#include "ibid/numerics.h"

namespace ibid {

struct KvType {
  const char* name;
  KvDType dtype;
};

inline constexpr std::array kKvTypes = {KvType{"f32", KvDType::kF32}, KvType{"f16", KvDType::kF16},
                                        KvType{"int8", KvDType::kInt8},
                                        KvType{"k8v4", KvDType::kK8V4}, KvType{"int4", KvDType::kInt4}};

constexpr const char* kv_type_name(KvDType dtype) {
  for (const KvType& type : kKvTypes) {
    if (type.dtype == dtype) return type.name;
  }
  return "";
}

// REQUIRES: a name of kKvTypes.
constexpr KvDType kv_type_named(std::string_view name) {
  for (const KvType& type : kKvTypes) {
    if (type.name == name) return type.dtype;
  }
  return KvDType::kF32;
}

}  // namespace ibid
