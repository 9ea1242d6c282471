// The pages at / and /monitor and the files that they are made of, which the build has put into the program
// (cmake/embed_files.cmake). They are for everybody: what they show they fetch, with the key that a person enters.
//
// Every response forbids what the pages do not need: scripts and styles of any other place or within the HTML, requests
// to other places, being framed, telling other places where a link was followed. (That a type is what it says, every
// response of the server says.) Immutable, thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "server/http/router.h"

namespace ibid::serve {

struct PageFile {
  std::string_view path;          // "/page/app.js"; the pages themselves are "/" and "/monitor"
  std::string_view content_type;
  std::string_view etag;          // of the content, in quotation marks
  std::string_view content;
};

// In the order of their names.
std::span<const PageFile> page_files();

// Adds GET and HEAD of every file.
void add_page_routes(http::Router& router);

}  // namespace ibid::serve
