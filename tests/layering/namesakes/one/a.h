#pragma once

namespace ibid {

class Set {};
inline constexpr int kSize = 1;

}  // namespace ibid
