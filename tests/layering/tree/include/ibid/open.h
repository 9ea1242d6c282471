#include <vector>

#include "base/up.h"
#include "ibid/open.h"
