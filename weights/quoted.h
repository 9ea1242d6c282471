#pragma once
#include "weights/in_quotes.h"
namespace ibid { inline std::string quoted(std::string_view t) { return in_quotes(t); } }
