// The filters of Jinja that templates use, by name; `tojson` is transformers' own. filters_text.cc and
// filters_collections.cc hold them.
#pragma once

#include <string_view>

#include "templates/jinja/ast.h"

namespace ibid::jinja {

// nullptr: there is none of that name.
Filter find_filter(std::string_view name);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
// The parts of the table.
Filter find_text_filter(std::string_view name);
Filter find_collection_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);

}  // namespace ibid::jinja
