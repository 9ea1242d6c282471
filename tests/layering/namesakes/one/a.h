#pragma once

namespace ibid {

class Set {};

}  // namespace ibid
