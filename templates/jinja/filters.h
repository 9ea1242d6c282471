// The filters of Jinja that templates use, by name; `tojson` is transformers' own. The files
// filters_*.cc hold them.
#pragma once

#include <string>
#include <string_view>

#include "templates/jinja/ast.h"

namespace ibid::jinja {

// nullptr: there is none of that name.
Filter find_filter(std::string_view name);
// The error for a filter that find_filter() does not find. It says so where Jinja has a filter of that name.
std::string no_filter(const std::string& name);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
// The parts of the table.
Filter find_text_filter(std::string_view name);
Filter find_collection_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);
Filter find_markup_filter(std::string_view name);

}  // namespace ibid::jinja
