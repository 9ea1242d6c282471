#include "server/protocol/item_list.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "server/protocol/site.h"

namespace ibid::serve {

namespace {

constexpr size_t kDefaultLimit = 20, kMostLimit = 100;

struct Page {
  size_t limit = kDefaultLimit;
  bool newest_first = true;
  std::string_view after = {};
};

MaybeFault read_limit(std::string_view text, size_t& limit) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error == std::errc() && end == text.data() + text.size() && limit >= 1 && limit <= kMostLimit) return {};
  return Fault{.message = "must be a whole number from 1 to " + std::to_string(kMostLimit), .param = "limit"};
}

// What it does not name is ignored. Ids and numbers have no letters that a query would have to spell otherwise.
MaybeFault read_page(std::string_view query, Page& page) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view name = pair.substr(0, equals);
    const std::string_view value = pair.substr(std::min(pair.size(), equals + 1));
    if (name == "limit") {
      if (MaybeFault fault = read_limit(value, page.limit)) return fault;
    } else if (name == "order") {
      if (value != "asc" && value != "desc") {
        return Fault{.message = "must be \"asc\" or \"desc\"", .param = "order"};
      }
      page.newest_first = value == "desc";
    } else if (name == "after") {
      page.after = value;
    }
  }
  return {};
}

}  // namespace

void respond_items(http::Exchange& exchange, Json items) {
  Page page;
  if (MaybeFault fault = read_page(exchange.request().query, page)) {
    return respond_fault(exchange, *fault, ErrorStyle::kOpenAi);
  }
  if (page.newest_first) std::reverse(items.begin(), items.end());
  size_t first = 0;
  if (!page.after.empty()) {
    while (first < items.size() && items[first]["id"] != page.after) ++first;
    if (first == items.size()) {
      return respond_fault(exchange, Fault{.message = "is no item of this list", .param = "after"},
                           ErrorStyle::kOpenAi);
    }
    ++first;
  }
  const size_t end = std::min(items.size(), first + page.limit);
  Json data = Json::array();
  for (size_t i = first; i < end; ++i) data.push_back(std::move(items[i]));
  Json json = Json::object();
  json["object"] = "list";
  json["first_id"] = data.empty() ? Json() : data[0]["id"];
  json["last_id"] = data.empty() ? Json() : data[data.size() - 1]["id"];
  json["has_more"] = end < items.size();
  json["data"] = std::move(data);
  respond_json(exchange, json);
}

}  // namespace ibid::serve
