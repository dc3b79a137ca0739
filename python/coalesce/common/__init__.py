"""What every room uses: exceptions, launch geometry, timing, progress, element types."""
