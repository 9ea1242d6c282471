// The pages at / and /monitor and their files, which the build has embedded in the program (cmake/embed_files.cmake).
// They need no key: they fetch their content with the key that a person enters.
//
// Every response forbids all that the pages do not need: scripts and styles of other origins or within the HTML,
// requests to other origins, framing, referrers. (All responses of the server forbid the guessing of types.) Immutable,
// thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "server/http/router.h"

namespace ibid::serve {

struct PageFile {
  std::string_view path;  // "/page/app.js"; the pages themselves are "/" and "/monitor"
  std::string_view content_type;
  std::string_view etag;  // of the content, in quotation marks
  std::string_view content;
};

// In the order of their names.
std::span<const PageFile> page_files();

// Adds GET and HEAD of every file.
void add_page_routes(http::Router& router);

}  // namespace ibid::serve
