# Drawn by: gnuplot -d roofline.gp
set encoding utf8
set terminal svg size 960,400 dynamic noenhanced font 'Helvetica,Arial,sans-serif,14' background '#ffffff' name 'roofline'
set output 'roofline.svg'
set border 3 linecolor rgb '#444444'
set tics nomirror out textcolor rgb '#222222'
set grid ytics linecolor rgb '#dddddd' linewidth 1
set key outside right top Left reverse samplen 2 spacing 1.2
set xlabel 'FLOP per byte'
set ylabel 'GFLOP/s'
set logscale xy
set xrange [0.00187715:256.424]
set yrange [0.000149869:592.925]
set xtics (0.01, 0.1, 1, 10, 100)
set ytics (0.001, 0.01, 0.1, 1, 10, 100)
set key bottom right
plot 'roofline.dat' index 0 using 1:2 with points pointtype 7 pointsize 0.6 linecolor rgb '#0072B2' title 'operators', \
     'roofline.dat' index 1 using 1:2 with lines linewidth 2 linecolor rgb '#E69F00' title 'roof, from the fastest cache', \
     'roofline.dat' index 2 using 1:2 with lines linewidth 2 dashtype 2 linecolor rgb '#D55E00' title 'roof, from the slowest working set'
