/* What there is for one width of vectors. What no program has is not compiled. */
static const gb_width GB(width_of) = {
    .vector = GB_V,
    .tile = GB_TILE,
    .tasks =
        {
            [GB_LOAD] = GB(load_rows),
            [GB_STORE] = GB(store_rows),
            [GB_CONV] = GB(convolve),
            [GB_FIRST] = GB(convolve),
            [GB_PRODUCT] = GB(convolve),
            [GB_TRANSPOSED] = GB(transposed),
            [GB_MAX_POOL] = GB(pool),
            [GB_AVERAGE_POOL] = GB(pool),
            [GB_GLOBAL_AVERAGE] = GB(global_average),
            [GB_ADD] = GB(elementwise),
            [GB_MUL] = GB(elementwise),
            [GB_SCALE] = GB(elementwise),
            [GB_ACT] = GB(elementwise),
            [GB_COPY] = GB(elementwise),
            [GB_RESIZE] = GB(resize),
            [GB_LAYER_NORM] = GB(normalize),
            [GB_RMS_NORM] = GB(normalize),
            [GB_CLEAR] = GB(clear),
            [GB_PICK] = GB(pick),
            [GB_ROTARY] = GB(rotate),
            [GB_FLATTEN] = GB(flatten),
#if GB_HAS_LANES
            [GB_DEPTHWISE] = GB(by_lane),
            [GB_GROUPED] = GB(by_lane),
#endif
#if GB_HAS_WINOGRAD
            [GB_WINOGRAD] = GB(winograd),
#endif
#if GB_HAS_ATTENTION
            [GB_ATTENTION] = GB(attend),
#endif
        },
    .pack = GB(pack),
    .pack_by_lane = GB(pack_by_lane),
    .pack_transposed = GB(pack_transposed),
#if GB_HAS_WINOGRAD
    .transform_weights = GB(transform_weights),
    .winograd_floats = GB(winograd_floats),
    .tiles_at_once = GB(tiles_at_once),
#endif
#if GB_HAS_STRASSEN
    .strassen = GB(strassen),
    .pairs_at_once = GB(pairs_at_once),
    .strassen_floats = GB(strassen_floats),
    .add_quarters = GB(add_quarters),
#endif
#if GB_HAS_ATTENTION
    .attention_floats = GB(attention_floats),
#endif
};
