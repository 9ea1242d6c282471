// strftime_now: a given moment in the C locale. No time zone, as datetime.now() has none.
#pragma once

#include <string>
#include <string_view>

#include "templates/jinja/state.h"

namespace ibid::jinja {

// `now`: "YYYY-MM-DDTHH:MM:SS". Fails when it is not.
std::string format_time(RenderState& state, std::string_view now, const std::string& format);

}  // namespace ibid::jinja
