# libsnls_cuda.so: src/cuda/*.cu where nvcc is found, loaded by libsnls at run time and linked to nothing of it. The few C files of
# the core that it needs are compiled into it, hidden.
#   SNLS_CUDA_ARCHS=90        one architecture, for development
#   SNLS_CUDA_ARCHS=release   7.5 to 12.0 as machine code, and PTX for what comes after
option(SNLS_WITH_CUDA "build libsnls_cuda.so where nvcc is found" ON)
set(SNLS_CUDA_ARCHS "75-virtual;90-real" CACHE STRING "release, or a list as CMAKE_CUDA_ARCHITECTURES takes it")
set(SNLS_HAVE_CUDA OFF)
file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)

if(SNLS_WITH_CUDA AND cuda_sources)
    set(CMAKE_CUDA_ARCHITECTURES ${SNLS_CUDA_ARCHS})
    if(SNLS_CUDA_ARCHS STREQUAL release)
        set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100-real 120-real 120-virtual)
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        enable_language(CUDA)
        set(SNLS_HAVE_CUDA ON)
    else()
        message(STATUS "No nvcc: libsnls_cuda.so is not built")
    endif()
endif()

if(SNLS_HAVE_CUDA)
    set(core base/alloc.c base/error.c base/number.c base/tensor.c op/aggregate.c op/match.c)
    list(TRANSFORM core PREPEND ${PROJECT_SOURCE_DIR}/src/)
    add_library(snls_cuda SHARED ${cuda_sources} ${core})
    target_include_directories(snls_cuda PRIVATE include src)
    target_compile_options(snls_cuda PRIVATE
        "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;-Xcompiler=-Wall,-fvisibility=hidden,-ffp-contract=off>"
        "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${SNLS_WERROR}>>:-Werror=all-warnings>"
        "$<$<COMPILE_LANGUAGE:C>:$<TARGET_PROPERTY:snls_flags,INTERFACE_COMPILE_OPTIONS>>")
    set_target_properties(snls_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static
        CUDA_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    target_link_options(snls_cuda PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/cuda.map" LINKER:-z,defs)
endif()

# libsnls_nn_cuda.so: layers of networks, with cuDNN and cuBLAS, where both are found. Loaded like the other.
set(SNLS_HAVE_NN_CUDA OFF)
if(SNLS_HAVE_CUDA)
    find_package(CUDAToolkit QUIET)
    find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
    if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY AND TARGET CUDA::cublas)
        set(SNLS_HAVE_NN_CUDA ON)
    else()
        message(STATUS "No cuDNN or cuBLAS: libsnls_nn_cuda.so is not built")
    endif()
endif()

if(SNLS_HAVE_NN_CUDA)
    file(GLOB nn_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/nn_cuda/*.cu ${PROJECT_SOURCE_DIR}/src/nn_cuda/*.c)
    add_library(snls_nn_cuda SHARED ${nn_cuda_sources} ${PROJECT_SOURCE_DIR}/src/cuda/call.cu
        ${PROJECT_SOURCE_DIR}/src/base/alloc.c ${PROJECT_SOURCE_DIR}/src/base/error.c ${PROJECT_SOURCE_DIR}/src/base/number.c ${PROJECT_SOURCE_DIR}/src/base/tensor.c)
    target_include_directories(snls_nn_cuda PRIVATE include src)
    target_include_directories(snls_nn_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_options(snls_nn_cuda PRIVATE
        "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-Xcompiler=-Wall,-fvisibility=hidden>"
        "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${SNLS_WERROR}>>:-Werror=all-warnings>"
        "$<$<COMPILE_LANGUAGE:C>:$<TARGET_PROPERTY:snls_flags,INTERFACE_COMPILE_OPTIONS>>")
    target_link_libraries(snls_nn_cuda PRIVATE ${CUDNN_LIBRARY} CUDA::cublas CUDA::cudart_static)
    set_target_properties(snls_nn_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static
        CUDA_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    target_link_options(snls_nn_cuda PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/nn_cuda.map" LINKER:-z,defs)
endif()
