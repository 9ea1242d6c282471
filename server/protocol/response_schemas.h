// What an endpoint's answer is, as a JSON schema for the description of the endpoints (openapi.h). It says what a
// client may rely on: fields that are always there, and their kinds. Answers may have more. Plain data.
#pragma once

#include <string_view>

namespace ibid::serve {

// Of a whole answer with status 200; empty: any object. Of a stream there is no schema: its form is the protocol's.
std::string_view response_schema(std::string_view method, std::string_view pattern);

}  // namespace ibid::serve
