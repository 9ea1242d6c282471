#include "weights/model_file.h"
#include <kernels/kernels.h>
