// References to addresses, as $id and $ref have them (RFC 3986, section 5).
#pragma once

#include <string>
#include <string_view>

namespace ibid {

// What `reference` means within a document at `base`. A fragment of the base is dropped.
std::string resolve_uri(std::string_view base, std::string_view reference);

}  // namespace ibid
