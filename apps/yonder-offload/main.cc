// yonder-offload: the process in which a memory node runs functions of its clients. Started by
// yonderd, with its socket as standard input; of no use by itself.
#include "yonder/offload/worker.h"

int main() { return yonder::offload::run_worker(); }
