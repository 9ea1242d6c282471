// The pages at / and /monitor and their files, which the build embeds in the program (cmake/embed_files.cmake). They
// require no key: they fetch their data with the key that the user enters.
//
// The headers of every response forbid everything that the pages do not need: scripts and styles of other origins or
// inline, requests to other origins, framing, referrers. (All responses of the server forbid MIME sniffing.) Immutable,
// thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "server/http/router.h"

namespace ibid::serve {

struct PageFile {
  std::string_view path;  // path of a file: "/page/app.js"; of a page: "/" or "/monitor"
  std::string_view content_type;
  std::string_view etag;  // hash of the content, in quotes
  std::string_view content;
};

// Returns all files, sorted by name.
std::span<const PageFile> page_files();

// Adds GET and HEAD of every file. "/" is the page for clients that accept text/html, and Ollama's greeting for others.
void add_page_routes(http::Router& router);

}  // namespace ibid::serve
