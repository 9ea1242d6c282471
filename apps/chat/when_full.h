// The words of --when-full and /when-full, which say what happens when the context is full.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ibid/session_options.h"

namespace ibid {

inline constexpr std::array<std::string_view, 3> kWhenFullNames = {"error", "drop", "cut"};  // as WhenFull

inline std::string_view when_full_name(WhenFull policy) { return kWhenFullNames[static_cast<size_t>(policy)]; }

inline std::optional<WhenFull> when_full_by_name(std::string_view name) {
  for (size_t i = 0; i < kWhenFullNames.size(); ++i) {
    if (kWhenFullNames[i] == name) return static_cast<WhenFull>(i);
  }
  return std::nullopt;
}

}  // namespace ibid
