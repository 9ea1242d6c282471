#include "server/web/page_routes.h"

#include <string>
#include <utility>

namespace ibid::serve {

namespace {

// Text that a model wrote is untrusted. The page never turns it into HTML. If a bug did, this policy would stop it:
// with Trusted Types every conversion of text to HTML or script is an error.
constexpr char kPagePolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

http::Headers page_headers(const PageFile& file) {
  return {{"Content-Security-Policy", kPagePolicy},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Permissions-Policy", "camera=(), microphone=(), geolocation=()"},
          // The browser must revalidate each time, usually with a 304, so that a new program is never used with an old
          // page.
          {"Cache-Control", "no-cache"},
          {"Vary", "Accept"},
          {"ETag", std::string(file.etag)}};
}

// True if the list contains the tag. Lists are written `"a", W/"b"` or `*`.
bool names_etag(std::string_view list, std::string_view etag) { return list == "*" || list.find(etag) != list.npos; }

// True if the client gets the page. At "/", only clients that accept HTML do; programs look for Ollama's greeting
// there.
bool wants_page(const http::Exchange& exchange, const PageFile& file) {
  return file.path != "/" || exchange.request().header("accept").find("text/html") != std::string_view::npos;
}

void respond_file(http::Exchange& exchange, const PageFile& file) {
  if (!wants_page(exchange, file)) {
    return exchange.respond(
        {.content_type = "text/plain; charset=utf-8", .body = "Ollama is running", .headers = {{"Vary", "Accept"}}});
  }
  http::Response response{.content_type = std::string(file.content_type), .headers = page_headers(file)};
  if (names_etag(exchange.request().header("if-none-match"), file.etag)) {
    response.status = 304;
  } else {
    response.body = std::string(file.content);
  }
  exchange.respond(std::move(response));
}

}  // namespace

void add_page_routes(http::Router& router) {
  for (const PageFile& file : page_files()) {
    router.add(
        "GET", file.path,
        [&file](const http::ExchangePtr& exchange, const http::PathParts&) { respond_file(*exchange, file); },
        http::Access::kEverybody);
  }
}

}  // namespace ibid::serve
