#pragma once

namespace ibid {

class Set {};
inline constexpr int kSize = 2;

}  // namespace ibid
