#include "server/http/response_writer.h"

#include <algorithm>
#include <utility>

#include "server/http/header_names.h"

namespace ibid::http {

namespace {

// Adds the header where its handler has not said otherwise.
void add_default(Headers& headers, std::string_view name, std::string_view value) {
  const auto is_it = [&](const auto& header) { return same_name(header.first, name); };
  if (std::none_of(headers.begin(), headers.end(), is_it)) headers.emplace_back(name, value);
}

}  // namespace

bool ResponseWriter::add(Reply::Portion portion, std::string& out) {
  if (portion.is_cut) return false;
  if (portion.head) add_head(*std::move(portion.head), portion.is_stream, out);
  if (!portion.bytes.empty() && !is_whole_) add_to_stream(portion.bytes, out);
  if (portion.is_last && !is_whole_) {
    if (in_chunks_) out += kLastChunk;
    is_whole_ = true;
  }
  return true;
}

void ResponseWriter::add_to_stream(std::string_view bytes, std::string& out) const {
  if (in_chunks_) {
    append_chunk(out, bytes);
  } else {
    out += bytes;
  }
}

void ResponseWriter::add_head(Response response, bool is_stream, std::string& out) {
  has_head_ = true;
  in_chunks_ = is_stream && !options_.is_old;
  if (is_stream && options_.is_old) options_.keep_alive = false;
  Framing framing{.length = response.body.size(), .is_old = options_.is_old, .keep_alive = options_.keep_alive};
  if (is_stream) {
    framing.body = options_.is_old ? Framing::Body::kUntilTheEnd : Framing::Body::kChunks;
    add_default(response.headers, "Cache-Control", "no-store");
    add_default(response.headers, "X-Accel-Buffering", "no");  // a proxy in between passes on what it has
  } else if (response.status != 204 && response.status != 304) {
    framing.body = Framing::Body::kLength;
  }
  for (auto& header : options_.headers) response.headers.push_back(std::move(header));
  out += response_head(response, framing);
  is_whole_ = options_.head_only;
  if (!options_.head_only && !is_stream) out += response.body;
}

}  // namespace ibid::http
